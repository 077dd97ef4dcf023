// The first page: leads in every case, and the matrix of cases and backends.
"use strict";
(function () {
  const { machines, facets, columns } = bench.data;
  if (!bench.find("matrix")) return;

  const VERDICTS = [
    { value: "faster", text: "▲ faster" },
    { value: "slower", text: "▼ slower" },
    { value: "same", text: "= same" },
    { value: "unclear", text: "? unclear" },
  ];
  const ORDERS = [
    { value: "model", text: "model" },
    { value: "lead", text: "lead" },
  ];
  const PAGE = 100;
  const filters = [
    ...bench.describeFilters(facets, machines),
    { key: "verdict", label: "Engine", kind: "choice", all: "all", values: () => VERDICTS },
    { key: "order", label: "Order", kind: "choice", values: () => ORDERS },
    { key: "find", label: "Case contains", kind: "search" },
    { key: "page", kind: "page" },
  ];

  function choose(entries, chosen) {
    const text = chosen.find.toLowerCase();
    const found = entries.filter(
      (one) =>
        bench.matches(one, chosen) &&
        (!chosen.verdict || (one.best && one.best.verdict === chosen.verdict)) &&
        (!text || one.case.toLowerCase().includes(text) || one.name.toLowerCase().includes(text)),
    );
    if (chosen.order === "lead") found.sort((a, b) => (b.best ? b.best.value : 0) - (a.best ? a.best.value : 0));
    return found;
  }

  /** A case in few words; threads and precision are left out where a filter sets them, or no case of the machine differs. */
  function nameAll(chosen) {
    const mine = facets.filter((one) => one.machine === chosen.machine);
    const isOpen = (part) => !chosen[part] && bench.unique(mine.map((one) => one[part])).length > 1;
    const many = { threads: isOpen("threads"), precision: isOpen("precision") };
    return (one) => [one.name, many.threads ? `t${one.threads}` : "", many.precision ? one.precision : "", one.io === "torch" ? "" : one.io, one.device === "cpu" ? "" : one.device].filter(Boolean).join(" ");
  }

  function writeTally(found) {
    const compared = found.filter((one) => one.best);
    const first = compared.filter((one) => one.first);
    const others = compared.filter((one) => !one.first);
    const sure = (list, word) => list.filter((one) => one.best.verdict === word).length;
    const doubtful = compared.filter((one) => one.doubtful && ["faster", "slower"].includes(one.best.verdict)).length;
    if (!compared.length) return found.length ? "No case shown has a time of the engine and of another backend." : "No case fits these filters.";
    let text = `Engine first in ${first.length} of ${bench.count(compared.length, "case")}, beyond noise in ${sure(first, "faster")}`;
    if (others.length) text += `; another backend first in ${others.length}, beyond noise in ${sure(others, "slower")}`;
    if (doubtful) text += `; ${doubtful} of these with noisy or disturbed times`;
    return `${text}.`;
  }

  /** One line a model, those in which the engine is slower first. */
  function drawModels(found) {
    const words = VERDICTS.map((one) => one.value);
    const models = new Map();
    for (const one of found) if (one.best) models.set(one.model, [...(models.get(one.model) || []), one]);
    const count = (cases, word) => cases.filter((one) => one.best.verdict === word).length;
    const share = (cases) => count(cases, "slower") / cases.length;
    const lines = [...models].sort(([, a], [, b]) => share(b) - share(a));
    const rows = lines.map(([model, cases]) => {
      const signs = words.flatMap((word) => cases.filter((one) => one.best.verdict === word)).map((one) => bench.make("span", { class: `sign ${one.best.verdict}` }, bench.SIGNS[one.best.verdict]));
      const numbers = words.map((word) => bench.make("td", { class: `number value ${word}` }, count(cases, word) || ""));
      const link = bench.make("a", { href: `${cases[0].page}#${new URLSearchParams({ machine: cases[0].machine })}` }, model);
      return bench.make("tr", { "data-model": model }, bench.make("th", { scope: "row" }, link), numbers, bench.make("td", { class: "signs", "aria-hidden": "true" }, signs));
    });
    bench.fillTable(bench.find("models"), [{ text: "model" }, ...VERDICTS.map((one) => ({ text: [bench.SIGNS[one.value], bench.make("span", { class: "word" }, ` ${one.value}`)], class: "number" })), { text: "cases" }], rows);
  }

  /** Buttons for the cases that do not fit on this page. */
  function drawPager(number, total) {
    const last = Math.max(1, Math.ceil(total / PAGE));
    const button = (text, page) => {
      const made = bench.make("button", { type: "button", disabled: page < 1 || page > last }, text);
      made.addEventListener("click", () => {
        change({ page: page > 1 ? String(page) : "" });
        bench.find("matrix-title").scrollIntoView();
        const again = [...bench.find("pager").querySelectorAll("button")].find((one) => !one.disabled && one.textContent === text) || bench.find("pager").querySelector("button:not([disabled])");
        if (again) again.focus({ preventScroll: true });
      });
      return made;
    };
    const shown = `Cases ${(number - 1) * PAGE + 1} to ${Math.min(total, number * PAGE)} of ${total}`;
    bench.find("pager").replaceChildren(...(last > 1 ? [button("Previous", number - 1), bench.make("span", {}, shown), button("Next", number + 1)] : []));
  }

  function drawLeads(found, name) {
    const shown = found.filter((one) => one.best);
    const figure = bench.find("leads");
    if (bench.hide(figure, !shown.length)) return;
    const points = shown.map((one) => ({
      name: name(one),
      value: one.best.value,
      low: one.best.low,
      high: one.best.high,
      colour: bench.getVerdictColour(one.best.verdict),
      symbol: { faster: "triangle-right", slower: "triangle-left", same: "diamond", unclear: "circle-open" }[one.best.verdict],
      text: `${one.best.text} ${one.best.interval} against ${one.best.other}: ${one.best.verdict}`,
    }));
    bench.drawIntervals(figure, [{ name: "engine", points }], "engine slower  ←  speed of the engine against the fastest other backend  →  engine faster");
  }

  function writeCell(entry, column) {
    const cell = entry.cells[column];
    if (!cell) return bench.make("td", { class: "nothing" }, "");
    if (cell.seconds === null) {
      const isHarmless = ["unavailable", "not applicable"].includes(cell.status);
      return bench.make("td", { class: isHarmless ? "nothing" : "", title: cell.reason }, bench.make("span", { class: isHarmless ? "" : "wrong" }, isHarmless ? "n/a" : cell.status));
    }
    const old = cell.fault ? bench.make("span", { class: "old", title: `superseded: ${cell.fault}`, tabindex: "0" }, "old") : null;
    const time = bench.make("small", {}, bench.make("span", { class: cell.label === entry.fastest ? "best" : "" }, cell.text, entry.per === "token" ? "/token" : ""), old ? [" ", old] : null);
    if (!cell.lead) return bench.make("td", {}, cell.role === "engine" ? "1x" : "", time);
    return bench.make("td", { class: cell.lead.verdict, title: cell.label === column ? null : cell.label }, bench.writeLead(cell.lead), time);
  }

  function drawMatrix(found, name) {
    const shown = columns.filter((column) => found.some((one) => one.cells[column]));
    const headings = [{ text: "case" }, { text: "fastest other" }, ...shown.map((text) => ({ text }))];
    const rows = found.map((one) => {
      const link = bench.make("a", { href: `${one.page}#${new URLSearchParams({ machine: one.machine, case: one.case })}` }, name(one));
      const marks = one.marks ? bench.make("small", { title: one.notes.join("\n") }, `marks: ${one.marks}`) : null;
      const best = one.best
        ? bench.make("td", { class: `lead-cell ${one.best.verdict}` }, bench.writeLead(one.best), bench.make("small", {}, one.best.other))
        : bench.make("td", { class: "lead-cell nothing" }, "-");
      return bench.make("tr", { class: one.doubtful ? "doubtful" : "", "data-case": one.case }, bench.make("th", { scope: "row" }, link, bench.make("small", {}, `${one.date}, floor ${one.floor_text || "-"}`), marks), best, shown.map((column) => writeCell(one, column)));
    });
    bench.fillTable(bench.find("matrix"), headings, rows);
  }

  let current = null;
  const change = bench.makeFilters(bench.find("filters"), filters, (chosen, whenDrawn) => {
    current = chosen;
    const { part } = machines.find((one) => one.name === chosen.machine);
    bench.withPart(part, (entries) => {
      if (current !== chosen) return;
      const found = choose(entries, chosen);
      const name = nameAll(chosen);
      const last = Math.max(1, Math.ceil(found.length / PAGE));
      const number = Math.min(last, Math.max(1, Math.floor(Number(chosen.page)) || 1));
      const shown = found.slice((number - 1) * PAGE, number * PAGE);
      bench.find("tally").textContent = writeTally(found);
      drawModels(found);
      drawLeads(shown, name);
      drawMatrix(shown, name);
      drawPager(number, found.length);
      whenDrawn();
    });
  });
})();
