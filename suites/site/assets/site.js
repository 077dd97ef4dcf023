// What every page shares: its data, elements, filters with a permalink, and the switch between light and dark.
"use strict";
const bench = {};

(function () {
  bench.data = JSON.parse(document.getElementById("data").textContent);
  bench.SIGNS = { faster: "▲", slower: "▼", same: "=", unclear: "?" };

  /** An element with attributes and children; strings become text, so nothing in a record is read as HTML. */
  bench.make = function (name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
    return made;
  };

  bench.find = (id) => document.getElementById(id);
  bench.unique = (values) => [...new Set(values)];
  bench.count = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;

  /** A table with these headings and rows of cells; a cell is text, an element or a list of them. */
  bench.fillTable = function (table, headings, rows) {
    const head = bench.make("tr", {}, headings.map((one) => bench.make("th", { scope: "col", class: one.class }, one.text)));
    table.replaceChildren(bench.make("thead", {}, head), bench.make("tbody", {}, rows));
    for (const row of table.tBodies[0].rows) {
      [...row.cells].forEach((cell, number) => number && cell.colSpan === 1 && (cell.dataset.label = head.cells[number].textContent));
    }
    requestAnimationFrame(() => table.closest(".scroll") && watchScroll(table.closest(".scroll")));
  };

  // A table that is wider than its place fades at its edge, and a line below says that it goes on.
  const watched = new WeakSet();
  function watchScroll(place) {
    if (watched.has(place)) return;
    watched.add(place);
    const hint = bench.make("p", { class: "hint", hidden: true }, "Scroll sideways for more columns →");
    place.after(hint);
    const check = () => {
      hint.hidden = place.scrollWidth <= place.clientWidth + 1;
      place.classList.toggle("more", place.scrollWidth - place.clientWidth - place.scrollLeft > 1);
    };
    place.addEventListener("scroll", check);
    const observer = new ResizeObserver(check);
    observer.observe(place);
    for (const child of place.children) observer.observe(child);
    check();
  }
  for (const place of document.querySelectorAll(".scroll")) watchScroll(place);

  bench.listNotes = function (place, notes) {
    place.replaceChildren(notes.length ? bench.make("ul", { class: "notes" }, notes.map((one) => bench.make("li", {}, one))) : "");
  };

  // Data that a page loads only when it shows them, each part from a script of its own: build.py writes these.

  const parts = new Map();
  const waiting = new Map();

  bench.receive = function (name, values) {
    parts.set(name, values);
    for (const use of waiting.get(name) || []) use(values);
    waiting.delete(name);
  };

  /** Call `use(values)` with the part of that name: now if it is here, otherwise when it has been loaded. */
  bench.withPart = function (name, use) {
    if (parts.has(name)) return use(parts.get(name));
    if (waiting.has(name)) return waiting.get(name).push(use);
    waiting.set(name, [use]);
    const script = bench.make("script", { src: `data/${document.body.dataset.page}-${name}.js` });
    script.addEventListener("error", () => waiting.delete(name));
    document.head.append(script);
  };

  // Filters. Their values stand in the fragment of the address, so that a link shows the same again, also from disk.

  function readFragment() {
    return new URLSearchParams(location.hash.slice(1));
  }

  /**
   * Fill a form with filters and call `show(values)` now and whenever one changes.
   * A filter is {key, label, kind: "select" | "choice" | "search" | "page", values(chosen): [{value, text}], all}; `all`
   * is the text of the value that leaves nothing out. A filter's values may depend on those chosen before it. One of kind
   * "page" has no control in the form, and another filter that changes resets it.
   *
   * Returns a function that changes filters, such as `change({page: "2"})`.
   */
  bench.makeFilters = function (form, filters, show) {
    let chosen = {};
    const isText = (filter) => ["search", "page"].includes(filter.kind);

    /** Values that the address names and the page does not have, in words. */
    let unknown = [];

    function choose(wanted) {
      chosen = {};
      unknown = [];
      for (const filter of filters) {
        if (isText(filter)) {
          chosen[filter.key] = wanted[filter.key] || "";
          continue;
        }
        const values = filter.values(chosen).map((one) => String(one.value));
        const fallback = filter.all ? "" : values[0] || "";
        const asked = wanted[filter.key] ?? fallback;
        const isKnown = values.includes(asked) || (filter.all && asked === "");
        chosen[filter.key] = isKnown ? asked : fallback;
        if (!isKnown && asked !== "") unknown.push(`${filter.label} "${asked}"`);
      }
    }

    function isUsual(filter) {
      if (isText(filter) || filter.all || chosen[filter.key] === "") return chosen[filter.key] === "";
      const values = filter.values(chosen);
      return values.length > 0 && chosen[filter.key] === String(values[0].value);
    }

    /** A choice can be taken back with the browser's back button; letters of a search are no entries of the history. */
    function writeFragment(isChoice, isRead) {
      const found = readFragment(); // with the filters of another form of the page
      if (!isRead) found.delete("show");
      for (const filter of filters) {
        found.delete(filter.key);
        if (!isUsual(filter)) found.set(filter.key, chosen[filter.key]);
      }
      const text = found.toString();
      if (text !== location.hash.slice(1)) {
        // without any "#": an empty fragment means the top of the page, where a browser would scroll once it has loaded
        const address = location.href.split("#")[0] + (text ? `#${text}` : "");
        history[isChoice ? "pushState" : "replaceState"](null, "", address);
      }
    }

    function writePermalinks() {
      const found = new URLSearchParams(location.hash.slice(1));
      for (const link of document.querySelectorAll("[data-permalink]")) {
        const here = new URLSearchParams(found);
        here.set("show", link.dataset.permalink);
        link.setAttribute("href", `#${here}`);
      }
    }

    function draw() {
      const focused = document.activeElement && form.contains(document.activeElement) ? document.activeElement.name : null;
      const controls = filters.map(drawFilter).filter(Boolean);
      form.replaceChildren(...controls, ...(controls.some((one) => one.matches("label, fieldset")) ? [drawReset()] : []), ...(unknown.length ? [describeUnknown()] : []));
      form.hidden = !form.children.length;
      if (focused) {
        const again = form.querySelector(`[name="${CSS.escape(focused)}"]:checked`) || form.querySelector(`[name="${CSS.escape(focused)}"]`);
        if (again) again.focus();
      }
    }

    function describeUnknown() {
      return bench.make("p", { class: "unknown", role: "status" }, `The address names what this page does not have: ${unknown.join(", ")}. The page shows the usual instead.`);
    }

    function drawReset() {
      const button = bench.make("button", { type: "button" }, "Reset");
      button.addEventListener("click", () => change({}, true));
      return button;
    }

    /** What leaves no choice, but must be known to read the numbers. */
    const drawOnly = (label, text) => bench.make("p", { class: "only" }, label, bench.make("span", {}, text));

    function drawFilter(filter) {
      if (filter.kind === "page") return null;
      if (filter.kind === "search") {
        const input = bench.make("input", { type: "search", name: filter.key, value: chosen[filter.key], autocomplete: "off" });
        input.addEventListener("input", () => change({ [filter.key]: input.value }, false));
        return bench.make("label", {}, filter.label, input);
      }
      const values = filter.values(chosen).map((one) => ({ value: String(one.value), text: one.text }));
      if (values.length < 2) return filter.key === "machine" && values.length ? drawOnly(filter.label, values[0].text) : null;
      const options = filter.all ? [{ value: "", text: filter.all }, ...values] : values;
      if (filter.kind === "select") {
        const select = bench.make("select", { name: filter.key }, options.map((one) => bench.make("option", { value: one.value, selected: one.value === chosen[filter.key] }, one.text)));
        select.addEventListener("change", () => change({ [filter.key]: select.value }, true));
        return bench.make("label", {}, filter.label, select);
      }
      const choices = options.map((one) => {
        const input = bench.make("input", { type: "radio", name: filter.key, value: one.value, checked: one.value === chosen[filter.key] });
        input.addEventListener("change", () => change({ [filter.key]: one.value }, true));
        return bench.make("label", {}, input, bench.make("span", {}, one.text));
      });
      return bench.make("fieldset", {}, bench.make("legend", {}, filter.label), bench.make("div", { class: "choices" }, choices));
    }

    function change(wanted, isChoice) {
      const kept = Object.fromEntries(filters.filter((one) => one.kind !== "page").map((one) => [one.key, chosen[one.key]]));
      choose(Object.keys(wanted).length ? { ...kept, ...wanted } : {});
      unknown = []; // a choice of one filter may end that of another
      if (isChoice) draw();
      writeFragment(isChoice, false);
      show(chosen, writePermalinks);
      writePermalinks();
    }

    function readAll() {
      const fragment = readFragment();
      choose(Object.fromEntries(fragment));
      draw();
      writeFragment(false, true);
      const scroll = () => {
        writePermalinks();
        const shown = fragment.get("show");
        if (shown) bench.afterCharts(() => bench.find(shown) && bench.find(shown).scrollIntoView());
      };
      show(chosen, scroll);
      scroll();
    }

    form.addEventListener("submit", (event) => event.preventDefault());
    window.addEventListener("hashchange", readAll);
    bench.onTheme(() => show(chosen, writePermalinks));
    readAll();
    return (wanted) => change(wanted, true);
  };

  /** Filters that most pages have, over entries with `machine`, `threads` and `precision`. */
  bench.describeFilters = function (entries, machines) {
    const of = (chosen) => entries.filter((one) => !chosen.machine || one.machine === chosen.machine);
    const order = ["fp32", "bf16", "fp16"];
    const rank = (name) => (order.includes(name) ? order.indexOf(name) : order.length);
    return [
      { key: "machine", label: "Machine", kind: "select", values: () => machines.map((one) => ({ value: one.name, text: `${one.text} (${one.name})` })) },
      { key: "threads", label: "Threads", kind: "choice", all: "all", values: (chosen) => bench.unique(of(chosen).map((one) => one.threads)).sort((a, b) => a - b).map((one) => ({ value: one, text: String(one) })) },
      { key: "precision", label: "Precision", kind: "choice", all: "all", values: (chosen) => bench.unique(of(chosen).map((one) => one.precision)).sort((a, b) => rank(a) - rank(b) || a.localeCompare(b)).map((one) => ({ value: one, text: one })) },
    ];
  };

  bench.matches = (entry, chosen) =>
    (!chosen.machine || entry.machine === chosen.machine) &&
    (!chosen.threads || String(entry.threads) === chosen.threads) &&
    (!chosen.precision || entry.precision === chosen.precision);

  /** The engine against one backend: sign, factor and interval. */
  bench.writeLead = function (lead) {
    return [
      bench.make("span", { class: `sign ${lead.verdict}`, title: lead.verdict, "aria-label": lead.verdict }, bench.SIGNS[lead.verdict]),
      bench.make("span", { class: `value ${lead.verdict}` }, lead.text),
      " ",
      bench.make("span", { class: "interval" }, lead.interval),
    ];
  };

  // Light and dark.

  const listeners = [];
  bench.onTheme = (listener) => listeners.push(listener);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let isPrinting = false;
  /** Pixels of a chart on A4; null on a screen, where charts follow the width. */
  bench.getPaperWidth = () => (isPrinting ? 680 : null);
  bench.isDark = () => !isPrinting && (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  dark.addEventListener("change", () => listeners.forEach((listener) => listener()));
  // Paper is light, whatever the page is.
  for (const [event, value] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(event, () => {
      isPrinting = value;
      document.documentElement.classList.toggle("printing", value);
      listeners.forEach((listener) => listener());
    });
  }
  // Charts of a phone are laid out in another way.
  matchMedia("(max-width: 639px)").addEventListener("change", () => listeners.forEach((listener) => listener()));
  bench.find("theme").addEventListener("click", () => {
    const wanted = bench.isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = wanted;
    try {
      localStorage.setItem("enginebench-theme", wanted);
    } catch {
      // Without storage the choice holds for this page.
    }
    listeners.forEach((listener) => listener());
  });

  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") for (const menu of document.querySelectorAll("details.menu[open]")) menu.open = false;
  });
})();
