"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector, within = document) => within.querySelector(selector);
  // What readers see of a name of params.yaml: its label, or the name with spaces.
  const labels = JSON.parse(one("#labels").textContent);
  const spaced = (name) => name.replaceAll("_", " ");
  const shown_of = (name) => labels[name] ?? spaced(name);
  const both_of = (name) => (labels[name] ? `${labels[name]} (${name})` : spaced(name));
  // Fixed words have a Japanese form; rows and measured values stay as they are.
  const japanese = JSON.parse(one("#japanese").textContent);
  let language = "en";
  function t(text, ...of) {
    const form = (language === "ja" && japanese[text]) || text;
    return form.replace(/\{(\d)\}/g, (_, index) => of[index]);
  }
  function speak(wanted) {
    if (wanted === language) return;
    language = wanted;
    for (const word of all(".t")) {
      const key = (word.dataset.words ??= word.textContent);
      word.textContent = t(key, ...(word.dataset.of ?? "").split("|"));
      if (language === "ja" && japanese[key]) word.lang = "ja"; else word.removeAttribute("lang");
    }
    for (const name of ["aria-label", "placeholder"]) {
      for (const element of all(`[${name}]:not(td)`)) {
        const key = (element.dataset[name === "placeholder" ? "placeholder" : "label"] ??= element.getAttribute(name));
        element.setAttribute(name, t(key));
      }
    }
    for (const part of all("[data-only]")) part.hidden = part.dataset.only !== language;
    for (const button of all("[data-language]")) button.setAttribute("aria-pressed", button.dataset.language === language);
  }
  const filters = all(".filter");
  const search = one("#search");
  let rows = null;

  // Rows hold names; a table shows labels beside them once it is opened.
  const name_in = (cell) => cell.dataset.name ?? cell.textContent;
  function label(table) {
    for (const row of all("tbody tr", table)) {
      for (const cell of [...row.cells].slice(0, 3)) {
        const name = cell.textContent;
        if (!name || cell.dataset.name) continue;
        cell.dataset.name = name;
        const code = document.createElement("code");
        code.textContent = name;
        cell.replaceChildren(shown_of(name), ...(labels[name] ? [" ", code] : []));
      }
    }
  }
  // The tables are the only data of the page: each row is read once, when it is first needed.
  function read() {
    rows ??= all("table.long").flatMap((table) =>
      all("tbody tr", table).map((element) => {
        const [model, data_set, condition] = [0, 1, 2].map((i) => name_in(element.cells[i]));
        const [measurement, ...quantity] = element.dataset.q.split(".");
        const reason = one(".no", element);
        return {
          element, table, model, data_set, condition, measurement,
          quantity: quantity.join("."),
          raw: element.dataset.v.split(" "),
          label: one("th", element).textContent,
          shown: reason ? [] : [4, 5, 6].map((i) => element.cells[i].textContent),
          reason: reason ? reason.textContent.replace("not run: ", "") : "",
          file: element.lastElementChild.textContent,
        };
      }));
    return rows;
  }
  const identity = (row) => [row.model, row.data_set, row.condition, row.measurement, row.quantity].join(" ");
  function different(list) {
    return [...new Map(list.map((row) => [identity(row), row])).values()];
  }

  // A row is found by its quantity and by the names of what it is of, and their labels.
  function words_of(row) {
    const names = [row.model, row.data_set, row.condition];
    const text = [row.label, `${row.measurement}.${row.quantity}`, ...names, ...names.map(spaced), ...names.map(shown_of)];
    return (row.text ??= text.join(" ").toLowerCase());
  }

  // Filters: nothing chosen shows everything.
  const fields = { models: "model", "data-sets": "data_set", conditions: "condition" };
  const boxes = (filter) => all("input", filter);
  const chosen = () => Object.fromEntries(
    filters.map((f) => [f.dataset.filter, boxes(f).filter((box) => box.checked).map((box) => box.value)]));

  function apply() {
    const picked = chosen();
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const active = Object.entries(picked).filter(([, names]) => names.length);
    for (const filter of filters) {
      const count = picked[filter.dataset.filter].length;
      one(".chosen", filter).textContent = count ? `(${count})` : "";
      filter.classList.toggle("active", count > 0);
    }
    const shown = new Map();
    for (const row of read()) {
      const text = words_of(row);
      row.hidden = !(active.every(([kind, names]) => names.includes(row[fields[kind]])) &&
        words.every((word) => text.includes(word)));
      if (row.element.hidden !== row.hidden) row.element.hidden = row.hidden;
      if (!row.hidden) shown.set(row.table, (shown.get(row.table) ?? 0) + 1);
    }
    for (const table of all("table.long")) {
      const details = table.closest("details");
      const count = shown.get(table) ?? 0;
      const total = Number(one(".count", details).dataset.total);
      one(".count", details).textContent = count === total ? `${total}` : `${count} of ${total}`;
      one(".scroll", details).hidden = count === 0;
      one(".none", details).hidden = count > 0;
    }
    const left = different(rows.filter((row) => !row.hidden)).length;
    const total = different(rows).length;
    one("#status").textContent = left === total ? t("{0} rows", total) : t("{0} of {1} rows", left, total);
  }

  // The state of the page is in its address, so that a view can be sent to someone else.
  const selects = ["model", "dataset", "a", "b"].map((name) => one(`#compare-${name}`));
  const order = one("#compare-order");
  let place = "";
  // What other parts of the page keep in the address, and need for it.
  const shared = (globalThis.posenc = { heads: "", remember, whenNear, shown_of, both_of, t });
  function remember() {
    const state = new URLSearchParams();
    for (const [kind, names] of Object.entries(chosen())) if (names.length) state.set(kind, names.join(","));
    if (search.value.trim()) state.set("search", search.value.trim());
    if (compared) state.set("compare", selects.map((select) => select.value).join(","));
    if (order.value) state.set("order", order.value);
    if (shared.heads) state.set("heads", shared.heads);
    if (place) state.set("at", place);
    if (language !== "en") state.set("lang", language);
    const hash = `#${state.toString().replaceAll("%2C", ",")}`;
    try {
      history.replaceState(null, "", hash);
    } catch {
      location.replace(hash);
    }
  }
  function recall() {
    const hash = location.hash.slice(1);
    const state = new URLSearchParams(hash.includes("=") ? hash : "");
    for (const filter of filters) {
      const names = (state.get(filter.dataset.filter) ?? "").split(",");
      for (const box of boxes(filter)) box.checked = names.includes(box.value);
    }
    search.value = state.get("search") ?? "";
    const wanted = (state.get("compare") ?? "").split(",");
    compared = wanted.length === 4;
    order.value = state.get("order") === "difference" ? "difference" : "";
    place = state.get("at") ?? "";
    shared.heads = state.get("heads") ?? "";
    speak(state.get("lang") === "ja" ? "ja" : "en");
    dispatchEvent(new Event("recalled"));
    // A page without state is shown as it is; its tables are read when they are needed.
    if (rows || hash.includes("=")) apply();
    if (rows || compared) compare(wanted); else whenNear(one("#compare"), () => compare(wanted));
    if (place) document.getElementById(place)?.scrollIntoView();
  }
  function whenNear(element, act) {
    const watcher = new IntersectionObserver((seen) => {
      if (!seen.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      act();
    }, { rootMargin: "400px" });
    watcher.observe(element);
  }
  function reachable() {
    // What scrolls sideways on a narrow screen can be reached by keyboard.
    for (const plate of all(".plate")) {
      if (plate.scrollWidth > plate.clientWidth) plate.tabIndex = 0; else plate.removeAttribute("tabindex");
    }
  }

  // Side by side.
  let compared = false;
  const unique = (values) => [...new Set(values)];
  function offer(select, names, wanted) {
    select.replaceChildren(...names.map((name) => new Option(both_of(name), name)));
    select.value = names.includes(wanted) ? wanted : names[0] ?? "";
  }
  function compare(wanted = selects.map((select) => select.value)) {
    const [model, dataset, a, b] = selects;
    const usable = different(read()).filter((row) => row.condition && row.data_set && row.raw[0] !== "");
    const with_two = (list, field) => unique(list.map((row) => row[field])).filter(
      (name) => unique(list.filter((row) => row[field] === name).map((row) => row.condition)).length > 1);
    offer(model, with_two(usable, "model"), wanted[0]);
    const of_model = usable.filter((row) => row.model === model.value);
    offer(dataset, with_two(of_model, "data_set"), wanted[1]);
    const here = of_model.filter((row) => row.data_set === dataset.value);
    const names = unique(here.map((row) => row.condition));
    offer(a, names, wanted[2] || names[0]);
    offer(b, names, wanted[3] || names[1]);
    const columns = [a, b].map((select) => new Map(
      here.filter((row) => row.condition === select.value).map((row) => [`${row.measurement}.${row.quantity}`, row])));
    one("#head-a").textContent = `A: ${a.selectedOptions[0]?.text ?? ""}`;
    one("#head-b").textContent = `B: ${b.selectedOptions[0]?.text ?? ""}`;
    const change = (key) => {
      const pair = columns.map((column) => column.get(key));
      return pair.every(Boolean) ? Math.abs(Number(pair[1].raw[0]) - Number(pair[0].raw[0])) : -1;
    };
    const quantities = unique(columns.flatMap((column) => [...column.keys()]));
    if (order.value) quantities.sort((one, other) => change(other) - change(one));
    const lines = quantities.map((key) => {
      const pair = columns.map((column) => column.get(key));
      const known = pair[0] ?? pair[1];
      const line = document.createElement("tr");
      line.dataset.q = key;
      line.append(cell("td", known.measurement.replaceAll("_", " ")), cell("th", known.label));
      for (const row of pair) line.append(estimate(row));
      line.append(cell("td", pair.every(Boolean) ? difference(...pair) : "–", "n"));
      return line;
    });
    one("#compared tbody").replaceChildren(...lines);
    one("#compared-caption").textContent = t("{0} on {1}: {2} quantities",
      model.selectedOptions[0]?.text ?? t("no model"), dataset.selectedOptions[0]?.text ?? t("no data set"), lines.length);
  }
  function cell(kind, text, name = "") {
    const made = document.createElement(kind);
    if (kind === "th") made.scope = "row";
    made.className = name;
    made.textContent = text;
    return made;
  }
  function estimate(row) {
    const made = cell("td", row ? row.shown[0] : "–", "n");
    if (row?.shown[1]) {
      const interval = document.createElement("span");
      interval.className = "interval";
      interval.textContent = ` [${row.shown[1]}, ${row.shown[2]}]`;
      made.append(interval);
    }
    return made;
  }
  function difference(a, b) {
    const value = Number(b.raw[0]) - Number(a.raw[0]);
    const powers = [a, b].some((row) => row.shown[0].includes("×"));
    const places = Math.min(...[a, b].map((row) => (row.shown[0].split(".")[1] ?? "").length));
    const text = powers ? value.toPrecision(4) : value.toFixed(places);
    return (Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−")).replace(/^(?=[1-9]|0.*[1-9])/, "+");
  }

  // Downloads: made here, without a server.
  const columns = ["model", "data_set", "condition", "measurement", "quantity", "value", "low", "high", "not_run", "file"];
  function record(row) {
    const [value, low, high] = [0, 1, 2].map((i) => (row.raw[i] ? Number(row.raw[i]) : null));
    return { ...row, value, low, high, not_run: row.reason || null };
  }
  function save(button) {
    const table = one("table.long", button.closest("details") ?? document.createElement("p"));
    const left = different(read().filter((row) => !row.hidden && (!table || row.table === table)));
    const records = left.map((row) => {
      const full = record(row);
      return Object.fromEntries(columns.map((name) => [name, full[name]]));
    });
    const quote = (value) => (value === null ? "" : /[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
    const kind = button.dataset.save;
    const text = kind === "csv"
      ? [columns, ...records.map((record) => columns.map((name) => record[name]))].map((line) => line.map(quote).join(",")).join("\n") + "\n"
      : JSON.stringify(records, null, 1) + "\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: kind === "csv" ? "text/csv" : "application/json" }));
    link.download = `${button.dataset.name}.${kind}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  let waiting = 0;
  one("#filters").addEventListener("submit", (event) => event.preventDefault());
  one("#filters").addEventListener("change", () => { apply(); remember(); });
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { apply(); remember(); }, 120);
  });
  one("#filters").addEventListener("reset", () => setTimeout(() => { apply(); remember(); }));
  one("#choices").addEventListener("change", () => { compared = true; compare(); remember(); });
  addEventListener("toggle", (event) => {
    if (event.target.open && event.target.matches(".numbers")) label(one("table", event.target));
  }, true);
  addEventListener("hashchange", recall);
  document.addEventListener("keydown", (event) => {
    const open = event.key === "Escape" && filters.find((filter) => filter.open);
    if (open) { open.open = false; one("summary", open).focus(); }
  });
  document.addEventListener("click", (event) => {
    for (const filter of filters) if (filter.open && !filter.contains(event.target)) filter.open = false;
    const button = event.target.closest("button[data-save]");
    if (button) save(button);
    const spoken = event.target.closest("[data-language]");
    if (spoken) {
      speak(spoken.dataset.language);
      if (rows) { apply(); compare(); }
      dispatchEvent(new Event("spoken"));
      remember();
    }
    // Contents keep the state of the filters in the address.
    const link = event.target.closest("nav a, .skip");
    if (link) {
      event.preventDefault();
      place = link.hash.slice(1);
      const target = document.getElementById(place);
      target.scrollIntoView();
      target.tabIndex = -1;
      target.focus({ preventScroll: true });
      remember();
    }
  });
  if (matchMedia("(max-width: 60rem)").matches) one(".contents").open = false;
  addEventListener("resize", reachable);
  addEventListener("load", reachable);
  recall();
})();
