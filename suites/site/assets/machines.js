// The list of stored runs.
"use strict";
(function () {
  const { runs } = bench.data;
  const values = (name) => () => bench.unique(runs.map((one) => one[name])).sort().map((one) => ({ value: one, text: one }));
  const filters = [
    { key: "machine", label: "Machine", kind: "select", all: "all machines", values: values("machine") },
    { key: "suite", label: "Suite", kind: "select", all: "all suites", values: values("suite") },
    { key: "find", label: "Run contains", kind: "search" },
  ];
  const MOST = 200;

  bench.makeFilters(bench.find("filters"), filters, (chosen) => {
    const found = runs.filter((one) => (!chosen.machine || one.machine === chosen.machine) && (!chosen.suite || one.suite === chosen.suite) && (!chosen.find || one.run.includes(chosen.find)));
    const headings = ["run", "suite", "rows", "noise", "unfinished", "superseded"].map((text) => ({ text, class: text === "rows" ? "number" : "" }));
    const rows = found.slice(0, MOST).map((one) => bench.make("tr", { "data-run": one.run }, bench.make("th", { scope: "row" }, bench.make("code", {}, one.run)), bench.make("td", {}, one.suite), bench.make("td", { class: "number" }, String(one.rows)), bench.make("td", { class: "floor" }, one.floor), bench.make("td", {}, one.unfinished), bench.make("td", { class: one.superseded ? "long" : "" }, one.superseded)));
    if (found.length > MOST) rows.push(bench.make("tr", {}, bench.make("td", { colspan: 6, class: "nothing" }, `${found.length - MOST} more: narrow the filters, or read the raw numbers below`)));
    bench.fillTable(bench.find("runs"), headings, rows);
  });
})();
