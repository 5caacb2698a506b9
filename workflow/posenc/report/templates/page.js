"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector, within = document) => within.querySelector(selector);
  // What readers see of a name of params.yaml: its label, or the name with spaces.
  const labels = JSON.parse(one("#labels").textContent);
  const spaced = (name) => name.replaceAll("_", " ");
  const shown_of = (name) => labels[name] ?? spaced(name);
  const both_of = (name) => (labels[name] ? `${labels[name]} (${name})` : spaced(name));
  // Fixed words have a Japanese form, in one list or, where they are long, beside them; rows and
  // measured values stay as they are.
  const japanese = JSON.parse(one("#japanese").textContent);
  let language = "en";
  const in_japanese = (text) => japanese[text] ?? "";
  const form_of = (text, element) => (language === "ja" && (element?.dataset.ja ?? japanese[text])) || text;
  const filled = (form, of) => form.replace(/\{(\d)\}/g, (_, index) => of[index]);
  const t = (text, ...of) => filled(form_of(text), of);
  // Words of a quantity are said part by part; a part that is a name stays.
  const parts = JSON.parse(one("#quantities").textContent);
  const quantity_in_japanese = (label) => label.split(" · ").map((part) => parts[part] ?? part).join(" · ");
  const quantity_of = (label) => (language === "ja" ? quantity_in_japanese(label) : label);
  function say_quantity(element) {
    const label = (element.dataset.words ??= element.textContent);
    element.textContent = quantity_of(label);
    if (element.textContent === label) element.removeAttribute("lang"); else element.lang = "ja";
  }
  function say(within = document) {
    for (const word of all(".t", within)) {
      const key = (word.dataset.words ??= word.textContent);
      const form = form_of(key, word);
      word.textContent = filled(form, (word.dataset.of ?? "").split("|"));
      if (form === key) word.removeAttribute("lang"); else word.lang = "ja";
    }
    all(".quantity", within).forEach(say_quantity);
    for (const name of ["aria-label", "placeholder", "title"]) {
      for (const element of all(`[${name}]:not(td)`, within)) {
        const key = (element.dataset[{ "aria-label": "label" }[name] ?? name] ??= element.getAttribute(name));
        element.setAttribute(name, form_of(key, element));
      }
    }
  }
  function speak(wanted) {
    if (wanted === language) return;
    language = wanted;
    say();
    for (const part of all("[data-only]")) part.hidden = part.dataset.only !== language;
    for (const button of all("[data-language]")) button.setAttribute("aria-pressed", button.dataset.language === language);
  }
  const filters = all(".filter");
  const search = one("#search");
  // The words that tables are filtered by: what was searched, once a reader wants only these rows.
  let sought = "";
  let rows = null;
  let tables = null;

  // Every number of the page, as page_tables.packed made them: texts and groups of texts by index.
  function read() {
    if (rows) return rows;
    const { texts, groups, columns, tables: members } = JSON.parse(one("#numbers").textContent);
    const { what, shown, shown_low, shown_high, value, low, high } = columns;
    const summed = (steps) => { let sum = 0; return steps.map((step) => (sum += step)); };
    const run = summed(columns.run);
    rows = run.map((_, at) => {
      const [model, data_set, condition, measurement, file] = groups.run[run[at]].map((index) => texts[index]);
      const [quantity, label, reason] = groups.what[what[at]].map((index) => texts[index]);
      return {
        model, data_set, condition, measurement, file, quantity, label, reason,
        shown: texts[shown[at]], shown_low: texts[shown_low[at]], shown_high: texts[shown_high[at]],
        value: value[at], low: low[at], high: high[at],
      };
    });
    tables = all("table.long").map((element) => (
      { name: element.dataset.name, element, details: element.closest("details"), rows: summed(members[element.dataset.name]).map((at) => rows[at]), lines: null }));
    return rows;
  }
  // A table gets its rows when it is opened: labels with the names of params.yaml beside them.
  function draw(table) {
    if (table.lines) return;
    table.lines = table.rows.map((row) => {
      const line = document.createElement("tr");
      line.dataset.q = `${row.measurement}.${row.quantity}`;
      line.hidden = row.hidden ?? false;
      for (const name of [row.model, row.data_set, row.condition]) line.append(called(name));
      line.append(quantity(row.label));
      if (row.reason) {
        const none = cell("td", `: ${row.reason}`, "no");
        none.colSpan = 3;
        none.prepend(word("not run"));
        line.append(none);
      } else {
        for (const text of [row.shown, row.shown_low, row.shown_high]) line.append(cell("td", text));
      }
      line.append(cell("td", row.file));
      return line;
    });
    one("tbody", table.element).append(...table.lines);
  }
  function word(text) {
    const made = document.createElement("span");
    made.className = "t";
    made.dataset.words = text;
    made.textContent = t(text);
    if (made.textContent !== text) made.lang = "ja";
    return made;
  }
  function called(name) {
    const made = cell("td", name && shown_of(name));
    made.dataset.name = name;
    if (labels[name]) {
      const code = document.createElement("code");
      code.textContent = name;
      made.append(" ", code);
    }
    return made;
  }
  const identity = (row) => [row.model, row.data_set, row.condition, row.measurement, row.quantity].join(" ");
  function different(list) {
    return [...new Map(list.map((row) => [identity(row), row])).values()];
  }

  // Filters: nothing chosen shows everything.
  const fields = { models: "model", "data-sets": "data_set", conditions: "condition" };
  const boxes = (filter) => all("input", filter);
  const chosen = () => Object.fromEntries(
    filters.map((f) => [f.dataset.filter, boxes(f).filter((box) => box.checked).map((box) => box.value)]));

  function apply() {
    const picked = chosen();
    const by_words = finder.filter(sought);
    const active = Object.entries(picked).filter(([, names]) => names.length);
    for (const filter of filters) {
      const count = picked[filter.dataset.filter].length;
      one(".chosen", filter).textContent = count ? `(${count})` : "";
      filter.classList.toggle("active", count > 0);
    }
    for (const row of read()) {
      row.hidden = !(active.every(([kind, names]) => names.includes(row[fields[kind]])) && by_words.row(row));
    }
    for (const table of tables) {
      const total = table.rows.length;
      const count = table.left = table.rows.filter((row) => !row.hidden).length;
      table.lines?.forEach((line, at) => { line.hidden = table.rows[at].hidden; });
      one(".count", table.details).textContent = count === total ? `${total}` : t("{0} of {1}", count, total);
      one(".scroll", table.details).hidden = count === 0;
      one(".none", table.details).hidden = count > 0;
    }
    // A figure stays with a row of its table, or by its own words where no names are chosen.
    const left_of = new Map(tables.map((table) => [table.element.dataset.name, table.left]));
    for (const figure of all("[data-figure]")) {
      figure.hidden = !left_of.get(figure.dataset.figure) && (active.length > 0 || !by_words.figure(figure));
    }
    for (const none of all("section > .none")) {
      none.hidden = all("[data-figure]:not([hidden])", none.parentElement).length > 0;
    }
    const left = different(rows.filter((row) => !row.hidden)).length;
    const total = different(rows).length;
    one("#status").textContent = left === total ? t("{0} rows", total) : t("{0} of {1} rows", left, total);
  }

  // The state of the page is in its address, so that a view can be sent to someone else.
  const selects = ["model", "dataset", "a", "b"].map((name) => one(`#compare-${name}`));
  const order = one("#compare-order");
  const by_difference = () => one("#head-difference").getAttribute("aria-sort") === "descending";
  function sort(wanted) {
    if (wanted) one("#head-difference").setAttribute("aria-sort", "descending");
    else one("#head-difference").removeAttribute("aria-sort");
  }
  let place = "";
  // What other parts of the page keep in the address, and need for it.
  const shared = (globalThis.posenc = { heads: "", remember, whenNear, shown_of, both_of, t, say });
  function remember() {
    const state = new URLSearchParams();
    for (const [kind, names] of Object.entries(chosen())) if (names.length) state.set(kind, names.join(","));
    if (sought) state.set("search", sought);
    if (compared) state.set("compare", selects.map((select) => select.value).join(","));
    if (by_difference()) state.set("order", "difference");
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
    search.value = sought = state.get("search") ?? "";
    const wanted = (state.get("compare") ?? "").split(",");
    compared = wanted.length === 4;
    sort(state.get("order") === "difference");
    place = state.get("at") ?? "";
    shared.heads = state.get("heads") ?? "";
    speak(state.get("lang") === "ja" ? "ja" : "en");
    dispatchEvent(new Event("recalled"));
    // A page without state is shown as it is; its tables are read when they are needed.
    if (rows || hash.includes("=")) apply();
    if (rows || compared) compare(wanted); else whenNear(one("#compare"), () => compare(wanted));
    if (place) document.getElementById(place)?.scrollIntoView();
    else if (sought) reach();
  }
  function sieve(words) {
    if (words === sought) return;
    sought = words;
    apply();
    remember();
  }
  const finder = globalThis.posencSearch({
    shown_of, in_japanese, quantity_of, quantity_in_japanese, t, sieve,
    sought: () => sought,
    tables: () => read() && tables,
    line_of(table, row) { draw(table); return table.lines[table.rows.indexOf(row)]; },
    placed(id) { place = id; remember(); },
  });
  // A link that searches, as those of the documents, leads to the first table with a row of it.
  function reach() {
    const table = tables.find((one) => one.left > 0);
    if (!table) return;
    table.details.open = true;
    table.details.scrollIntoView();
  }
  function whenNear(element, act) {
    const watcher = new IntersectionObserver((seen) => {
      if (!seen.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      act();
    }, { rootMargin: "400px" });
    watcher.observe(element);
  }
  // A table that is wider than its frame says so.
  const measured = new ResizeObserver((seen) => seen.forEach(({ target }) => hint(target)));
  function hint(part) {
    const frame = part.closest(".scroll");
    if (frame.scrollWidth > frame.clientWidth) {
      frame.dataset.hint = t("The table is wider: move it sideways →");
    } else delete frame.dataset.hint;
  }
  for (const part of all(".scroll, .scroll > table")) measured.observe(part);

  // Side by side.
  let compared = false;
  const unique = (values) => [...new Set(values)];
  function offer(select, names, wanted) {
    select.replaceChildren(...names.map((name) => new Option(both_of(name), name)));
    select.value = names.includes(wanted) ? wanted : names[0] ?? "";
  }
  function compare(wanted = selects.map((select) => select.value)) {
    const [model, dataset, a, b] = selects;
    const usable = different(read()).filter((row) => row.condition && row.data_set && !row.reason);
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
      return pair.every(Boolean) ? Math.abs(pair[1].value - pair[0].value) : -1;
    };
    const quantities = unique(columns.flatMap((column) => [...column.keys()]));
    if (by_difference()) quantities.sort((one, other) => change(other) - change(one));
    const lines = quantities.map((key) => {
      const pair = columns.map((column) => column.get(key));
      const known = pair[0] ?? pair[1];
      const line = document.createElement("tr");
      line.dataset.q = key;
      line.append(cell("td", t(spaced(known.measurement))), quantity(known.label));
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
  function quantity(label) {
    const made = cell("th", label, "quantity");
    say_quantity(made);
    return made;
  }
  function estimate(row) {
    const made = cell("td", row ? row.shown : "–", "n");
    if (row?.shown_low) {
      const interval = document.createElement("span");
      interval.className = "interval";
      interval.textContent = ` [${row.shown_low}, ${row.shown_high}]`;
      made.append(interval);
    }
    return made;
  }
  function difference(a, b) {
    const value = b.value - a.value;
    const powers = [a, b].some((row) => row.shown.includes("×"));
    const places = Math.min(...[a, b].map((row) => (row.shown.split(".")[1] ?? "").length));
    const text = powers ? value.toPrecision(4) : value.toFixed(places);
    return (Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−")).replace(/^(?=[1-9]|0.*[1-9])/, "+");
  }

  // Downloads: made here, without a server.
  const columns = ["model", "data_set", "condition", "measurement", "quantity", "value", "low", "high", "not_run", "file"];
  function save(button) {
    const every = read();
    const table = tables.find((one) => one.details === button.closest("details"));
    const left = different((table?.rows ?? every).filter((row) => !row.hidden));
    const records = left.map((row) => Object.fromEntries(
      columns.map((name) => [name, name === "not_run" ? row.reason || null : row[name]])));
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

  one("#filters").addEventListener("submit", (event) => event.preventDefault());
  one("#filters").addEventListener("change", () => { apply(); remember(); });
  one("#filters").addEventListener("reset", () => setTimeout(() => { sought = ""; apply(); remember(); }));
  one("#choices").addEventListener("change", () => { compared = true; compare(); remember(); });
  order.addEventListener("click", () => { sort(!by_difference()); compare(); remember(); });
  addEventListener("toggle", (event) => {
    if (!event.target.open) return;
    if (event.target.matches(".numbers")) {
      read();
      draw(tables.find((table) => table.details === event.target));
    }
    if (event.target.id === "studies") list(event.target);
  }, true);

  // Each run lists the studies that have a page on disk, in a file beside their folders. It is read
  // when a reader asks, so that no page depends on another study.
  function list(switched) {
    const study = switched.dataset.study;
    const inside = new RegExp(`/studies/${study}/(index\\.html)?$`).test(location.pathname);
    const folder = inside ? ".." : "../data/studies";
    const say = (words) => {
      const told = one("p", switched);
      delete told.dataset.words;
      told.textContent = words && t(words);
      if (words) told.dataset.words = words;
    };
    const script = document.createElement("script");
    script.src = `${folder}/studies.js`;
    script.onload = () => {
      const others = globalThis.posencStudies.filter((name) => name !== study);
      one("ul", switched).replaceChildren(...others.map((name) => {
        const item = document.createElement("li");
        const link = document.createElement("a");
        link.textContent = name;
        link.href = `${folder}/${name}/index.html`;
        // What is chosen here is chosen there, as far as that study has it.
        link.addEventListener("click", () => { link.hash = location.hash; });
        item.append(link);
        return item;
      }));
      say(others.length ? "" : "No other study has a page on this machine.");
    };
    script.onerror = () => say("No list of studies lies beside this page: each run writes it, in the project's folder.");
    document.head.append(script);
    script.remove();
  }
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
      all(".scroll").forEach(hint);
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
  recall();
})();
