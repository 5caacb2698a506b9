"use strict";
// The search: what a reader types is compared with figures, parts of the page and numbers, as they
// are shown in English and in Japanese. The page says how it reads, translates and leads to them.
globalThis.posencSearch = (page) => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector, within = document) => within.querySelector(selector);
  const field = one("#search");
  const list = one("#found");
  const told = one("#told");
  const MOST = 12;
  const MOST_FIGURES = 5;
  const MOST_PARTS = 3;
  // Of one table, while others have rows too.
  const MOST_OF_TABLE = 3;

  // Full width and half width, case, signs, powers and separators of thousands do not matter.
  function folded(text) {
    return text.normalize("NFKC").toLowerCase().replace(/[−–‐]/g, "-").replace(/\s+/g, " ")
      .replace(/(?<=\d) ?[×x] ?10\^?(?=-?\d)/g, "e").replace(/(\d) %/g, "$1%").replace(/(\d),(?=\d{3}(?!\d))/g, "$1").trim();
  }
  // Of words that many rows share, once.
  const known = new Map();
  function once(text) {
    if (!known.has(text)) known.set(text, folded(text));
    return known.get(text);
  }
  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const FIGURE = /(?:figure|fig\.?|図) ?([a-z]?\d+)(?![\d.]*\d)[.。]?/;
  const NUMBER = /^[-+]?(\d*\.)?\d+(e-?\d+)?%?$/;

  // A query in parts, all of which are wanted: at most one figure; numbers; words.
  function query(typed) {
    let text = folded(typed);
    const figure = text.match(FIGURE);
    if (figure) text = text.replace(figure[0], " ");
    const parts = text.split(" ").filter(Boolean);
    const numbers = parts.filter((part) => NUMBER.test(part)).map((part) => {
      const [, places = "", power = 0] = part.match(/^[-+]?\d*\.?(\d*)(?:e(-?\d+))?/);
      return {
        text: part.replace("+", ""),
        value: parseFloat(part),
        // Of the last digit; 0 where only the number itself is meant.
        half: /[.e%]/.test(part) ? 0.500001 * 10 ** (power - places.length) : 0,
        of_hundred: part.endsWith("%"),
        // Alone among other digits: 0.97 is no part of 10.971.
        alone: new RegExp(`(?<!\\d|\\d\\.)${escaped(part)}(?!\\d|\\.\\d)`),
      };
    });
    // A key is a word for each of its parts.
    const words = parts.filter((part) => !NUMBER.test(part)).flatMap((part) => part.split(".")).filter(Boolean);
    const whole = parts.length && words.length ? new RegExp(`${escaped(text.trim())}(?!\\d)`) : null;
    return { figure: figure?.[1], numbers, words, whole };
  }
  const is_empty = ({ figure, numbers, words }) => !figure && !numbers.length && !words.length;

  // How well a number fits: 4 as it is shown, 3 as it is rounded, 2 as it begins, 1 by an end of its
  // interval or by a number among its words, 0 not at all. Without a sign, both signs fit.
  function fit(row, number) {
    const [shown, low, high] = (row.digits ??= [row.shown, row.shown_low, row.shown_high].map(once));
    const same = (text) => text && (text === number.text || text === `-${number.text}`);
    if (same(shown)) return 4;
    if (shown) {
      const value = row.value * (number.of_hundred ? 100 : 1);
      const apart = Math.abs(number.text[0] === "-" ? value - number.value : Math.abs(value) - number.value);
      // 0.9700 is 0.97.
      if (apart <= 1e-9 * Math.abs(number.value)) return 4;
      if (apart <= number.half) return 3;
    }
    if (number.text.length > 2 && (shown.startsWith(number.text) || shown.startsWith(`-${number.text}`))) return 2;
    return same(low) || same(high) || (row.text.includes(number.text) && number.alone.test(row.text)) ? 1 : 0;
  }
  const key_of = (row) => [row.model, row.data_set, row.condition, row.measurement, row.quantity].filter(Boolean);
  // A row is found by its key, its quantity and the names of what it is of, and their labels.
  function words_of(row) {
    const names = [row.model, row.data_set, row.condition, row.measurement];
    return [row.label, page.quantity_in_japanese(row.label), ...names.map((name) => name.replaceAll("_", " ")), ...names.map(page.shown_of)];
  }
  // Rank of a row, 0 where it does not match: the words as they were typed go before their parts,
  // and what was measured before what was not run.
  function rank(row, wanted) {
    row.text ??= [key_of(row).map(once).join("."), ...words_of(row).map(once)].join("\n");
    if (!wanted.words.every((word) => row.text.includes(word))) return 0;
    let best = 4;
    for (const number of wanted.numbers) {
      const found = fit(row, number);
      if (!found) return 0;
      best = Math.min(best, found);
    }
    return best + (wanted.whole?.test(row.text) ? 5 : 0) - (row.reason ? 0.5 : 0);
  }

  // What an element says, in both languages, however it was last said.
  function said(element) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) {
      const text = walker.currentNode.textContent.trim();
      const { words = text, ja = page.in_japanese(words), of = "" } = walker.currentNode.parentElement.closest(".t")?.dataset ?? {};
      texts.push(...[words, ja].map((form) => form.replace(/\{(\d)\}/g, (_, hole) => of.split("|")[hole])));
    }
    return texts.filter(Boolean);
  }
  let index = null;
  function read() {
    if (index) return index;
    const figures = all("[data-figure]").map((element) => {
      const caption = one("figcaption", element);
      const titles = [caption, ...all("h3, h4", element)];
      const number = folded(one("b", caption).textContent).match(FIGURE)?.[1];
      // The mark of its number is no part of its words.
      const texts = [...titles.flatMap(said).filter((text) => !/^(Figure|図) \S+$/.test(text)), element.dataset.figure.replaceAll("_", " "), element.dataset.figure];
      return { element, number, caption, texts, text: folded(texts.join(" \n ")), section: one("h2", element.closest("section")) };
    });
    const parts = all("main > section:not([id^=section-]), #glance article, #study dt").map((element) => {
      const title = one("h2, h3", element) ?? element;
      const more = element.matches("article") ? all("p", element) : [];
      const texts = [title, ...more].flatMap((part) => [part.textContent, ...said(part)]);
      const rest = more.at(-1) ?? (title === element ? element.nextElementSibling : null);
      return { element, title, rest, texts, text: folded(texts.join(" \n ")) };
    });
    index = { figures, parts, numbers: new Map(figures.map((figure) => [figure.element.dataset.figure, figure.number])) };
    return index;
  }
  const has = (text, wanted) => wanted.words.every((word) => text.includes(word)) &&
    wanted.numbers.every((number) => number.alone.test(text));
  const is_figure = (figure, wanted) => (!wanted.figure || figure.number === wanted.figure) && has(figure.text, wanted);

  // What the filter of the tables leaves: rows, and figures by their own words.
  function filter(typed) {
    const wanted = query(typed);
    if (is_empty(wanted)) return { row: () => true, figure: () => true };
    const { figures } = read();
    const rows = wanted.figure && new Set(page.tables().filter(({ name }) => index.numbers.get(name) === wanted.figure).flatMap((table) => table.rows));
    return {
      row: (row) => (!rows || rows.has(row)) && rank(row, wanted) > 0,
      figure: (element) => is_figure(figures.find((figure) => figure.element === element), wanted),
    };
  }

  // Everything that matches, best first; a number once, in the first table that has it.
  function find(typed) {
    const wanted = query(typed);
    if (is_empty(wanted)) return null;
    const { figures, parts, numbers } = read();
    const seen = new Set();
    const rows = page.tables().filter(({ name }) => !wanted.figure || numbers.get(name) === wanted.figure).flatMap((table) => (
      table.rows.filter((row) => !seen.has(row) && seen.add(row)).map((row) => ({ row, table, rank: rank(row, wanted) })).filter((hit) => hit.rank)));
    rows.sort((one, other) => other.rank - one.rank);
    return {
      wanted, rows,
      figures: figures.filter((figure) => is_figure(figure, wanted)),
      parts: wanted.figure ? [] : parts.filter((part) => has(part.text, wanted)),
    };
  }

  // Matches are marked in what is shown, however they are written there.
  function marker({ figure, numbers, words }) {
    const loose = (text) => [...text].map((letter) => (
      { "-": "[-−–]", " ": "\\s+", "%": "\\s*%" }[letter] ?? (/\d/.test(letter) ? `${letter},?` : escaped(letter)))).join("");
    const forms = [...words.map(loose), ...numbers.map(({ text }) => `(?<!\\d|\\d\\.)${loose(text)}`)];
    if (figure) forms.push(`(?:figure|図)\\s*${figure}(?!\\d)`);
    return new RegExp(`(${forms.join("|")})`, "giu");
  }
  function marked(kind, text, pattern, name = "") {
    const made = document.createElement(kind);
    made.className = name;
    made.append(...text.split(pattern).map((part, at) => {
      if (at % 2 === 0) return part;
      const mark = document.createElement("mark");
      mark.textContent = part;
      return mark;
    }));
    return made;
  }
  // The beginning of a text, or what is around its first match.
  function around(text, pattern) {
    const at = text.search(pattern);
    const from = at > 60 ? text.lastIndexOf(" ", at - 24) + 1 || at - 12 : 0;
    return `${from ? "… " : ""}${text.slice(from, from + 110)}${text.length > from + 110 ? " …" : ""}`;
  }
  function saying(texts, first, pattern) {
    const text = [first, ...texts].find((one) => one.search(pattern) >= 0) ?? first;
    return marked("span", around(text, pattern), pattern, "said");
  }

  // The options that are shown: what each does, and the one that keys have come to.
  let options = [];
  let at = -1;
  let waiting = 0;
  function option(group, act, ...content) {
    const made = document.createElement("div");
    made.setAttribute("role", "option");
    made.id = `found-${options.length}`;
    made.append(...content);
    options.push({ element: made, act });
    group.append(made);
  }
  const NOTHING = /(?!)/;
  function grouped(title) {
    const group = document.createElement("div");
    const head = marked("div", title, NOTHING, "head");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", title);
    head.setAttribute("aria-hidden", "true");
    group.append(head);
    list.append(group);
    return group;
  }
  function of_figure({ element, caption, section, texts }, group, pattern) {
    const own = caption.textContent.trim();
    const [number] = own.match(/^.*?\d+\.?/) ?? [""];
    option(group, () => go(one("figure", element)), marked("b", number, pattern), " ",
      saying(texts, own.slice(number.length).trim(), pattern), marked("span", section.textContent, pattern, "where"));
  }
  function of_row({ row, table }, group, pattern, { words, numbers }) {
    const names = [row.model, row.data_set, row.condition].filter(Boolean);
    const where = names.map(page.shown_of).join(" · ");
    const label = page.quantity_of(row.label);
    const seen = folded(`${label} ${where}`);
    // A value that fits is marked as a whole, however it was rounded.
    const is_meant = numbers.some((number) => fit(row, number) > 1);
    const value = marked("span", row.reason ? page.t("not run") : row.shown, is_meant ? /^(.+)$/ : pattern, "number");
    if (row.shown_low) value.append(marked("span", ` [${row.shown_low}, ${row.shown_high}]`, is_meant ? NOTHING : pattern, "interval"));
    option(group, () => go(page.line_of(table, row), one("figure", table.details.parentElement)), value,
      marked("span", label, pattern), marked("span", where, pattern, "where"));
    if (!words.every((word) => seen.includes(word))) options.at(-1).element.append(marked("code", key_of(row).join("."), pattern));
  }
  // The first few of each table, then the rest, as far as there is room; in order.
  function chosen(rows, room) {
    const counts = new Map();
    const early = rows.filter(({ table }) => counts.set(table, (counts.get(table) ?? 0) + 1).get(table) <= MOST_OF_TABLE);
    const taken = new Set([...early, ...rows.filter((hit) => !early.includes(hit)).slice(0, room)].slice(0, room));
    const groups = new Map();
    for (const hit of rows) if (taken.has(hit)) groups.set(hit.table, [...(groups.get(hit.table) ?? []), hit]);
    return groups;
  }
  function show() {
    waiting = 0;
    // Tables are filtered by what stands in the field, or by no words.
    if (field.value.trim() !== page.sought()) page.sieve("");
    const found = find(field.value);
    list.replaceChildren();
    options = [];
    at = -1;
    if (!found) return close();
    const { wanted, figures, parts, rows } = found;
    const pattern = marker(wanted);
    const [first, second] = [figures.slice(0, MOST_FIGURES), parts.slice(0, MOST_PARTS)];
    if (first.length) {
      const group = grouped(page.t("Figures"));
      for (const figure of first) of_figure(figure, group, pattern);
    }
    if (second.length) {
      const group = grouped(page.t("Parts of this page"));
      for (const part of second) {
        const title = part.title.textContent;
        option(group, () => go(part.element), marked("b", title, pattern));
        if (part.rest) options.at(-1).element.append(" ", saying(part.texts.filter((text) => text !== title), part.rest.textContent, pattern));
        else if (title.search(pattern) < 0) options.at(-1).element.append(" ", saying(part.texts, title, pattern));
      }
    }
    for (const [table, hits] of chosen(rows, MOST - options.length)) {
      const number = read().numbers.get(table.name);
      const group = grouped(number ? page.t("Numbers behind figure {0}", number) : page.t("Further numbers"));
      for (const hit of hits) of_row(hit, group, pattern, wanted);
    }
    const more = figures.length + parts.length + rows.length - options.length;
    if (rows.length) {
      const group = grouped(page.t("Tables"));
      option(group, () => { page.sieve(field.value.trim()); close(); }, page.t("Filter the tables (rows: {0})", rows.length));
    }
    told.textContent = options.length
      ? (more ? page.t("and {0} more", more) : "")
      : page.t("Nothing found. What can be searched: values as shown (0.97), figures (Figure 3), captions, and the names of models, data sets, conditions and quantities.");
    list.hidden = !options.length;
    field.setAttribute("aria-expanded", String(options.length > 0));
    list.parentElement.classList.add("open");
    list.scrollTop = 0;
    move(options.length ? 0 : -1);
  }
  function close() {
    list.hidden = true;
    told.textContent = "";
    list.parentElement.classList.remove("open");
    field.setAttribute("aria-expanded", "false");
    options = [];
    move(-1);
  }
  function move(to) {
    options[at]?.element.removeAttribute("aria-selected");
    at = to;
    const element = options[at]?.element;
    if (!element) return field.removeAttribute("aria-activedescendant");
    element.setAttribute("aria-selected", "true");
    field.setAttribute("aria-activedescendant", element.id);
    element.scrollIntoView({ block: "nearest" });
  }
  // Leads to what was found, opens what has to be opened, and marks it for a moment.
  function go(element, place = element.closest("[id]")) {
    close();
    // What filters hide is shown again, with all else.
    if (element.closest("[hidden]")) {
      const typed = field.value;
      field.form.reset();
      return setTimeout(() => { field.value = typed; go(element, place); });
    }
    for (let folds = element.closest("details"); folds; folds = folds.parentElement.closest("details")) folds.open = true;
    element.scrollIntoView({ block: element.matches("tr") ? "center" : "start" });
    element.tabIndex = -1;
    element.focus({ preventScroll: true });
    page.placed(place?.id ?? "");
    element.classList.add("arrived");
    setTimeout(() => element.classList.remove("arrived"), 2500);
  }

  const later = () => { clearTimeout(waiting); waiting = setTimeout(show, 120); };
  field.addEventListener("input", later);
  // What takes longest, before a reader has typed.
  field.addEventListener("focus", () => { if (field.value) later(); else setTimeout(() => find("-")); });
  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !options.length) show();
    else if (step) move((at + step + options.length) % options.length);
    else if (event.key === "Enter") {
      // What was just typed is searched first.
      const is_open = options.length > 0;
      if (waiting || !is_open) { clearTimeout(waiting); show(); }
      if (is_open) options[at]?.act();
    } else if (event.key === "Escape" && list.parentElement.classList.contains("open")) close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  // The field keeps the focus while an option is pressed.
  list.parentElement.addEventListener("mousedown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => options.find(({ element }) => element.contains(event.target))?.act());
  field.addEventListener("blur", () => { clearTimeout(waiting); waiting = 0; close(); });
  return { filter };
};
