"use strict";
(() => {
  const holder = document.querySelector("#heads-data");
  if (!holder) return;
  const one = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const shared = globalThis.posenc;
  const plain = shared.shown_of;
  const t = shared.t;
  const [model_of, dataset_of, layer_of, head_of] =
    ["model", "dataset", "layer", "head"].map((name) => one(`#head-${name}`));
  const [profile_of, slider] = [one("#mask-profile"), one("#mask-value")];
  let models = null;
  // The head that is shown where none is chosen.
  let clearest = null;
  // The mask that a reader chose.
  let picked = "";
  // What is shown now: model, data set, scores without positions, and patterns by their grid's id.
  let chosen = null;

  // Scores of one head, which come in hundredths: of each query, those of the keys that it sees.
  function scores(text, tokens, causal) {
    const numbers = text.split(" ").map((word) => Number(word) / 100);
    let at = 0;
    return Array.from({ length: tokens }, (_, query) =>
      numbers.slice(at, at += causal ? query + 1 : tokens));
  }
  function softmax(row) {
    const most = Math.max(...row);
    const weights = row.map((score) => Math.exp(score - most));
    const sum = weights.reduce((total, weight) => total + weight, 0);
    return weights.map((weight) => weight / sum);
  }
  // What a mask makes of a score; m rises from the floor to 1 over the sentence.
  const shapes = {
    alibi: (score, slope, distance) => score - slope * distance,
    logarithmic: (score, slope, distance) => score - slope * Math.log1p(distance),
    log_mask: (score, floor, distance, m) => score + Math.log(m),
    hf_le420: (score, floor, distance, m) => score - 1e4 * (1 - m),
    logit_mul: (score, floor, distance, m) => score * m,
    prob_mul: (score) => score,
  };
  // What the closed form of one head adds, by distance; the first key has a curve of its own.
  function masked_by(rows, [past, first]) {
    return rows.map((row, query) => softmax(row.map((score, key) =>
      score + ((key ? past[query - key] : first[query]) ?? 0))));
  }
  function masked(rows, shape, value) {
    const m = (key) => (rows.length > 1 ? value + (1 - value) * key / (rows.length - 1) : 1);
    return rows.map((row, query) => {
      const weights = softmax(row.map((score, key) =>
        shapes[shape](score, value, Math.abs(query - key), m(key))));
      return shape === "prob_mul" ? weights.map((weight, key) => weight * m(key)) : weights;
    });
  }

  function made(kind, text, attributes = {}) {
    const element = document.createElement(kind);
    element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }
  const rounded = (value) => value.toFixed(3);
  const signed = (value, digits = 0) => `${value < 0 ? "−" : value > 0 ? "+" : ""}${Math.abs(value).toFixed(digits)}`;
  const called = (token) => `“${chosen.model.pieces[token]}” (${token})`;

  // A pattern as a grid: one cell can be tabbed to, arrows go to the others.
  const titles = { "pattern-intact": "with positions", "pattern-zero": "without positions",
    "pattern-masked": "with the mask" };
  const beside = { "pattern-intact": "pattern-zero", "pattern-zero": "pattern-intact",
    "pattern-masked": "pattern-zero" };
  function draw(id, rows) {
    const grid = document.getElementById(id);
    const { pieces } = chosen.model;
    chosen.patterns[id] = rows;
    const before = (grid.dataset.at ?? "0,0").split(",").map(Number);
    const head = document.createElement("tr");
    head.append(made("td", ""), ...pieces.map((piece) => made("th", piece, { scope: "col" })));
    const lines = rows.map((row, query) => {
      const line = document.createElement("tr");
      line.append(made("th", pieces[query], { scope: "row" }));
      pieces.forEach((_, key) => {
        if (key >= row.length) return line.append(made("td", ""));
        const cell = made("td", "", {
          role: "gridcell", tabindex: -1, "data-at": `${query},${key}`,
          "aria-label": t("query {0}, key {1}: {2}", called(query), called(key), rounded(row[key])) });
        const fill = document.createElement("i");
        fill.style.opacity = rounded(row[key]);
        cell.append(fill);
        line.append(cell);
      });
      return line;
    });
    one("thead", grid).replaceChildren(head);
    one("tbody", grid).replaceChildren(...lines);
    grid.setAttribute("role", "grid");
    grid.style.setProperty("--tokens", pieces.length);
    (cell_at(grid, ...before) ?? cell_at(grid, 0, 0)).tabIndex = 0;
  }
  const cell_at = (grid, query, key) => one(`[data-at="${query},${key}"]`, grid);
  function point(cell) {
    const grid = cell.closest("table");
    const [query, key] = cell.dataset.at.split(",").map(Number);
    const other = beside[grid.id];
    for (const marked of all(".pattern .at")) marked.classList.remove("at");
    for (const id of [grid.id, other]) {
      cell_at(document.getElementById(id), query, key)?.classList.add("at");
    }
    const [value, against] = [grid.id, other].map((id) => rounded(chosen.patterns[id][query][key]));
    one(`#${grid.dataset.said}`).textContent = t("Query {0}, key {1}: {2} {3}, {4} {5}.",
      called(query), called(key), value, t(titles[grid.id]), against, t(titles[other]));
  }
  function enter(cell) {
    const grid = cell.closest("table");
    for (const other of all("td[tabindex='0']", grid)) other.tabIndex = -1;
    cell.tabIndex = 0;
    grid.dataset.at = cell.dataset.at;
    point(cell);
  }
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  function move(event) {
    const cell = event.target.closest("td[data-at]");
    if (!cell || event.ctrlKey || event.altKey || event.metaKey) return;
    const grid = cell.closest("table");
    const [query, key] = cell.dataset.at.split(",").map(Number);
    const last = chosen.patterns[grid.id][query].length - 1;
    const step = moves[event.key];
    const target = step ? cell_at(grid, query + step[0], key + step[1])
      : event.key === "Home" ? cell_at(grid, query, 0)
        : event.key === "End" ? cell_at(grid, query, last) : null;
    if (!step && !target) return;
    event.preventDefault();
    target?.focus();
  }

  // Masses before the window, at each offset, and after it: of a data set's texts where they are
  // measured, or of the sentence.
  function of_sentence(rows, window) {
    const sums = new Array(2 * window + 3).fill(0);
    rows.forEach((row, query) => row.forEach((weight, key) => {
      sums[Math.min(Math.max(key - query, -window - 1), window + 1) + window + 1] += weight;
    }));
    return sums.map((sum) => sum / rows.length);
  }
  const numbers = (text) => text.split(" ").map((word) => (word === "-" ? null : Number(word) / 1000));
  function offsets(number) {
    const { model, dataset, patterns } = chosen;
    const { window } = dataset;
    const measured = Object.keys(dataset.masses).length > 0;
    const columns = measured
      ? Object.entries(dataset.masses).map(([name, heads]) => [t("mass, {0}", plain(name)), numbers(heads[number])])
      : ["intact", "zero"].map((name) => [t("mass, {0}", plain(name)), of_sentence(patterns[`pattern-${name}`], window)]);
    const masses = columns.length;
    const curves = dataset.curves ? dataset.curves[number].map(numbers) : [];
    const names = ["position adds, measured", "position adds, closed form"];
    curves.forEach((curve, index) => columns.push([t(names[index]), [null, ...curve, null]]));
    const head = document.createElement("tr");
    head.append(made("th", t("Key − query"), { scope: "col" }),
      ...columns.map(([name]) => made("th", name, { scope: "col" })));
    const places = Array.from({ length: 2 * window + 3 }, (_, index) => index - window - 1);
    const lines = places.filter((place) => !model.causal || place <= 0).map((place) => {
      const line = document.createElement("tr");
      const outside = Math.abs(place) > window;
      const title = outside ? (place < 0 ? t("before {0}", `−${window}`) : t("after {0}", `+${window}`))
        : signed(place);
      line.append(made("th", title, { scope: "row" }));
      columns.forEach(([, values], column) => {
        const value = values[place + window + 1];
        const cell = made("td", value === null ? "–" : value.toFixed(3).replace("-", "−"), { class: column < masses ? "n mass" : "n" });
        if (column < masses) {
          const bar = document.createElement("span");
          bar.className = `bar bar-${column}`;
          bar.style.setProperty("--mass", value);
          cell.prepend(bar);
        }
        line.append(cell);
      });
      return line;
    });
    one("#offsets thead").replaceChildren(head);
    one("#offsets tbody").replaceChildren(...lines);
    const source = measured ? t("Masses: means over the queries of {0}.", plain(dataset.name))
      : t("Masses: means over the queries of the sentence alone, because activations of this model are not kept.");
    const added = curves.length ? t("What position adds to the scores, in nats: over pairs of tokens of {0}.", plain(dataset.name)) : "";
    one("#offsets-caption").textContent =
      `${t("{0}, layer {1}, head {2}, by offset.", plain(model.name), layer_of.value, head_of.value)} ${source} ${added}`.trim();
  }

  // The mask, and what was measured of the whole model: under it, or nearest to it.
  function nearest(points, value) {
    return points.reduce((best, point) =>
      (Math.abs(point.value - value) < Math.abs(best.value - value) ? point : best));
  }
  function mask() {
    const own = chosen.dataset.masks[profile_of.selectedIndex];
    one("#playground").hidden = !own;
    if (!own) return;
    slider.closest("label").hidden = !own.parameter;
    if (own.parameter) simple(own); else closed_form(own);
  }
  function closed_form(own) {
    const { model, dataset } = chosen;
    const [layer, head] = [layer_of.value, head_of.value];
    const curves = own.heads[layer * model.heads + Number(head)].map(numbers);
    const last = model.pieces.length - 1;
    const added = [curves[0][1], curves[0][last], curves[1][last]].map(
      (value) => signed(value ?? 0, 2));
    draw("pattern-masked", masked_by(chosen.without, curves));
    one("#mask-said").textContent = t(
      "Layer {0}, head {1}: the mask adds {2} nats at distance 1 and {3} at distance {5}; {4} to the first token from there. This curve is of documents of {6}.",
      layer, head, ...added, last, plain(dataset.name));
    measured(t("Condition"), own.points.map((point) => (
      { title: plain(point.value), cells: point.cells, marked: point.value === own.condition })));
    one("#measured-caption").textContent = t(
      "Measured: {0} on {1}, masks in all layers and heads at once, from the study's calibration text. The loss with one head's mask alone is not measured.",
      plain(model.name), plain(dataset.name));
  }
  function simple(own) {
    const { model, dataset } = chosen;
    const value = Number(slider.value);
    slider.setAttribute("aria-valuetext", `${t(own.parameter)} ${value}`);
    one("#mask-number").textContent = value.toFixed(2);
    one("#mask-parameter").textContent = t(own.parameter === "slope" ? "Slope (nats per token)" : "Floor");
    draw("pattern-masked", masked(chosen.without, own.shape, value));
    const close = nearest(own.points, value);
    const words = (cells) => dataset.quantities.map((name, index) => `${name} ${cells[index]}`).join(", ");
    one("#mask-said").textContent = t("{0} {1}: the nearest that was measured is {2}, {3}.",
      t(own.parameter === "slope" ? "Slope" : "Floor"), value.toFixed(2), close.value, words(close.cells));
    const rows = own.points.map((point) => {
      const none = point.value === (own.parameter === "slope" ? 0 : 1);
      const title = none ? t("{0}, no mask", point.value) : `${point.value}`;
      const marked = point === close;
      return { title: marked ? t("{0} (nearest)", title) : title, cells: point.cells, marked };
    });
    measured(t(own.parameter), [{ title: t("intact model"), cells: dataset.intact[0] ?? [] }, ...rows]);
    one("#measured-caption").textContent = t("Measured: {0} on {1}, the mask in all layers and heads of the model without positions.",
      plain(model.name), plain(dataset.name));
  }
  // The table: a row for each condition or value, with what was measured.
  function measured(title, rows) {
    const head = document.createElement("tr");
    head.append(made("th", title, { scope: "col" }),
      ...chosen.dataset.quantities.map((name) => made("th", name, { scope: "col", class: "n" })));
    one("#measured thead").replaceChildren(head);
    one("#measured tbody").replaceChildren(...rows.map((row) => {
      const line = document.createElement("tr");
      line.append(made("th", row.title, { scope: "row" }),
        ...row.cells.map((text) => made("td", text, { class: "n" })));
      if (row.marked) { line.className = "nearest"; line.setAttribute("aria-current", "true"); }
      return line;
    }));
  }
  function start() {
    const own = chosen.dataset.masks[profile_of.selectedIndex];
    if (!own?.parameter) return;
    const values = own.points.map((point) => point.value);
    slider.min = own.parameter === "slope" ? 0 : 0.01;
    slider.max = Math.max(1, ...values);
    slider.value = own.at;
    one("#mask-marks").replaceChildren(...values.map((value) => new Option("", value)));
  }

  function offer(select, names, wanted) {
    const texts = names.map(String);
    select.replaceChildren(...texts.map((name) => new Option(shared.both_of(name), name)));
    select.value = texts.includes(wanted) ? wanted : texts[0] ?? "";
  }
  const upto = (count) => Array.from({ length: count }, (_, index) => index);
  function read() {
    if (!models) ({ models, clearest } = JSON.parse(holder.textContent));
    one("#head-clearest").textContent = t(
      "The explorer opens on the head with the clearest pattern: {0}, layer {1}, head {2}. With positions, it gives {3} of its attention to offset {4} (key − query; mean over the queries of the sentence), and no other head here gives as much to one offset other than 0.",
      plain(clearest.model), clearest.layer, clearest.head, rounded(clearest.share), signed(clearest.offset));
  }
  function show(wanted = [model_of, dataset_of, layer_of, head_of].map((select) => select.value)) {
    read();
    offer(model_of, models.map((model) => model.name), wanted[0]);
    const model = models[model_of.selectedIndex];
    offer(dataset_of, model.datasets.map((dataset) => dataset.name), wanted[1]);
    const dataset = model.datasets[dataset_of.selectedIndex];
    offer(layer_of, upto(model.layers), wanted[2]);
    offer(head_of, upto(model.heads), wanted[3]);
    const [layer, head] = [Number(layer_of.value), Number(head_of.value)];
    const sentence = (name) => scores(model.scores[name][layer][head], model.pieces.length, model.causal);
    chosen = { model, dataset, without: sentence("zero"), patterns: {} };
    draw("pattern-intact", sentence("intact").map(softmax));
    draw("pattern-zero", chosen.without.map(softmax));
    for (const said of all("#heads .said")) said.textContent = t("Point at a cell, or move to it with the arrow keys.");
    offsets(layer * model.heads + head);
    const before = profile_of.value;
    offer(profile_of, dataset.masks.map((own) => own.condition), picked);
    for (const [index, own] of dataset.masks.entries()) profile_of.options[index].text = own.title;
    if (profile_of.value !== before || !before) start();
    for (const name of all(".of-head")) {
      name.textContent = t("{0}, layer {1}, head {2}", plain(model.name), layer, head);
    }
    mask();
  }

  const form = one("#head-choices");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", () => {
    show();
    shared.heads = [model_of, dataset_of, layer_of, head_of].map((select) => select.value).join(",");
    shared.remember();
  });
  one("#mask-choices").addEventListener("submit", (event) => event.preventDefault());
  profile_of.addEventListener("change", () => { picked = profile_of.value; start(); mask(); });
  slider.addEventListener("input", mask);
  const section = one("#heads");
  const on_cell = (act) => (event) => {
    const cell = event.target.closest?.("td[data-at]");
    if (cell) act(cell);
  };
  section.addEventListener("pointerover", on_cell(point));
  section.addEventListener("focusin", on_cell(enter));
  section.addEventListener("keydown", move);
  function recall() {
    read();
    show(shared.heads ? shared.heads.split(",")
      : [clearest.model, "", `${clearest.layer}`, `${clearest.head}`]);
  }
  addEventListener("spoken", () => { if (chosen) show(); });
  addEventListener("recalled", () => { if (shared.heads || chosen) recall(); });
  if (shared.heads) recall(); else shared.whenNear(section, () => { if (!chosen) recall(); });
})();
