"use strict";
// The values of a figure: of the point that a pointer is near, or that arrow keys have come to; and
// the figure enlarged.
(() => {
  const tip = document.querySelector("#tip");
  // In pixels.
  const NEAR = 16;
  // The plate, and the index of its point.
  let at = null;

  // Points in the order of drawing, in the units of the picture.
  function points_of(plate) {
    if (plate.points) return plate.points;
    const { panels, series } = JSON.parse(plate.querySelector("metadata").textContent);
    plate.points = series.flatMap(([panel, name, points], of) => points.map(([x, y, ...said]) => (
      { x: x / 10, y: y / 10, of, text: words(panels[panel], name, said) })));
    return plate.points;
  }
  const named = (label, value) => (label ? `${label}: ${value}` : value);
  // The name of what is pointed at, and then its values.
  function words([title, ...labels], name, [x, y, kind, low, high]) {
    const lines = [x, y].map((value, axis) => {
      if (value === "") return "";
      return named(labels[axis], kind === axis ? `${value} [${low}, ${high}]` : value);
    });
    if (kind === 2) lines.unshift(named(labels[2], low));
    return [[name, title].filter(Boolean).join(" · "), ...lines];
  }
  function nearest(plate, event) {
    const box = plate.querySelector("svg").getBoundingClientRect();
    const scale = plate.querySelector("svg").viewBox.baseVal.width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    let [found, least] = [-1, NEAR * scale];
    points_of(plate).forEach((point, index) => {
      const apart = Math.hypot(point.x - x, point.y - y);
      if (apart < least) [found, least] = [index, apart];
    });
    return found;
  }
  function show(plate, index) {
    if (index < 0) return hide();
    if (at?.plate === plate && at.index === index) return;
    hide();
    at = { plate, index };
    const { x, y, text } = points_of(plate)[index];
    const ring = document.createElementNS(plate.querySelector("svg").namespaceURI, "circle");
    ring.setAttribute("class", "here");
    for (const [name, value] of [["cx", x], ["cy", y], ["r", 4]]) ring.setAttribute(name, value);
    plate.querySelector("svg").append(ring);
    tip.replaceChildren(...text.filter(Boolean).map((line, number) => {
      const made = document.createElement(number || !text[0] ? "span" : "b");
      made.textContent = line;
      return made;
    }));
    tip.hidden = false;
    place();
  }
  function hide() {
    at?.plate.querySelector(".here")?.remove();
    at = null;
    tip.hidden = true;
  }
  // Beside the point: right of it, or left where the window ends.
  function place() {
    if (!at) return;
    const ring = at.plate.querySelector(".here").getBoundingClientRect();
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    const right = ring.right + 8;
    tip.style.left = `${Math.max(8, right > room ? Math.min(room, ring.left - tip.offsetWidth - 8) : right)}px`;
    const under = right > room && ring.left - tip.offsetWidth - 8 < 8;
    tip.style.top = `${under ? ring.bottom + 10 : Math.max(8, ring.top - tip.offsetHeight / 2)}px`;
  }
  // Left and right go along a series, up and down to the nearest point of another.
  function move(plate, key) {
    const points = points_of(plate);
    if (!points.length) return -1;
    const now = at?.plate === plate ? at.index : -1;
    if (key === "Home" || now < 0) return 0;
    if (key === "End") return points.length - 1;
    const last = points.length - 1;
    if (key === "ArrowRight") return Math.min(last, now + 1);
    if (key === "ArrowLeft") return Math.max(0, now - 1);
    const wanted = points[now].of + (key === "ArrowDown" ? 1 : -1);
    const apart = (index) => Math.abs(points[index].x - points[now].x);
    const other = points.map((_, index) => index).filter((index) => points[index].of === wanted);
    return other.reduce((best, index) => (apart(index) < apart(best) ? index : best), other[0] ?? now);
  }
  const keys = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];
  // Where scripts run, a <noscript> holds text. A figure is drawn when a reader comes near, and the
  // others when the browser has nothing else to do, so that its words are found.
  const waiting = new Set(document.querySelectorAll(".drawing"));
  function draw(drawing) {
    if (!waiting.delete(drawing)) return;
    drawing.innerHTML = drawing.querySelector("noscript").textContent;
    globalThis.posenc.say(drawing);
  }
  const later = globalThis.requestIdleCallback ?? ((act) => setTimeout(act, 50));
  function drawNext() {
    const [next] = waiting;
    if (next) { draw(next); later(drawNext); }
  }
  for (const drawing of waiting) globalThis.posenc.whenNear(drawing, () => draw(drawing));
  addEventListener("load", () => later(drawNext));
  addEventListener("beforeprint", () => waiting.forEach(draw));

  // A figure is as wide as the window lets it be; enlarged, its own plate moves into a dialog.
  const large = document.querySelector("#large");
  const room = large.querySelector(".room");
  const narrow = matchMedia("(max-width: 40rem)");
  function enlarge(figure) {
    const [plate, button] = [figure.querySelector(".plate"), figure.querySelector(".larger")];
    draw(plate.querySelector(".drawing"));
    hide();
    const hole = document.createElement("div");
    hole.style.height = `${plate.getBoundingClientRect().height}px`;
    plate.replaceWith(hole);
    room.replaceChildren(plate);
    large.append(tip);
    large.querySelector(".hint").textContent = figure.querySelector("figcaption b").textContent;
    // The focus returns to the button.
    button.focus({ preventScroll: true });
    large.showModal();
    large.addEventListener("close", () => {
      hide();
      hole.replaceWith(plate);
      document.body.append(tip);
    }, { once: true });
  }
  for (const figure of document.querySelectorAll("figure")) {
    figure.querySelector(".larger").addEventListener("click", () => enlarge(figure));
    figure.querySelector(".plate").addEventListener("click", () => {
      if (narrow.matches && !large.open) enlarge(figure);
    });
  }

  for (const plate of document.querySelectorAll(".plate[role]")) {
    for (const kind of ["pointermove", "pointerdown"]) {
      plate.addEventListener(kind, (event) => show(plate, nearest(plate, event)));
    }
    plate.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
    plate.addEventListener("blur", hide);
    plate.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hide();
      if (!keys.includes(event.key) || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      show(plate, move(plate, event.key));
      at?.plate.querySelector(".here").scrollIntoView({ block: "nearest", inline: "nearest" });
      place();
    });
  }
  addEventListener("scroll", place, { capture: true, passive: true });
  addEventListener("resize", hide);
})();
