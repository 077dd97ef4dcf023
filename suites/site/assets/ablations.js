// What each switch of a program is worth, case by case.
"use strict";
(function () {
  const { cases, machines } = bench.data;
  if (!bench.find("switches")) return;
  const key = (one) => `${one.case} ${one.program}`;
  const of = (chosen) => cases.filter((one) => ["machine", "backend", "model"].every((name) => !chosen[name] || one[name] === chosen[name]));
  /** Backends that were taken apart, the engine first, then others by name. */
  const list = (found) => bench.unique([...found].sort((a, b) => a.peer - b.peer || a.backend.localeCompare(b.backend)).map((one) => one.backend));
  const filters = [
    { key: "machine", label: "Machine", kind: "select", values: () => machines.map((one) => ({ value: one.name, text: `${one.text} (${one.name})` })) },
    { key: "backend", label: "Switches of", kind: "choice", values: (chosen) => list(of({ machine: chosen.machine })).map((one) => ({ value: one, text: one })) },
    { key: "model", label: "Model", kind: "select", all: "all models", values: (chosen) => bench.unique(of({ machine: chosen.machine, backend: chosen.backend }).map((one) => one.model)).sort().map((one) => ({ value: one, text: one })) },
    { key: "case", label: "Case and program", kind: "select", values: (chosen) => of(chosen).map((one) => ({ value: key(one), text: `${one.case}, ${one.program}` })) },
  ];

  function describePoint(row, effect) {
    const sure = ["faster", "slower"].includes(effect.verdict);
    return {
      name: row.switch,
      value: effect.value,
      low: effect.low,
      high: effect.high,
      colour: bench.getVerdictColour(effect.verdict),
      sure,
      text: `${effect.text} ${effect.verdict}`,
    };
  }

  function drawEffects(one) {
    const rows = one.switches.filter((row) => (row.left_out && row.left_out.value) || (row.alone && row.alone.value));
    const figure = bench.find("effects");
    if (bench.hide(figure, !rows.length)) return;
    const make = (name, mode, shape) => ({
      name,
      points: rows.filter((row) => row[mode] && row[mode].value).map((row) => describePoint(row, row[mode])).map((point) => ({ ...point, symbol: point.sure ? shape : `${shape}-open` })),
    });
    const series = [make("left out", "left_out", "circle"), make("alone", "alone", "square")].filter((one) => one.points.length);
    bench.drawIntervals(figure, series, "slower with the switch  ←  speed with it against without it  →  faster with the switch");
  }

  function drawPairs(one) {
    const pairs = one.pairs.filter((pair) => pair.value);
    const figure = bench.find("pairs");
    if (bench.hide(figure, !pairs.length)) return;
    const names = bench.unique(pairs.flatMap((pair) => pair.switches));
    const cell = (a, b) => pairs.find((pair) => pair.switches.includes(a) && pair.switches.includes(b) && a !== b);
    // A cell within noise has the colour of no effect, whatever its value: only a verdict is blue or orange.
    const isSure = (pair) => ["faster", "slower"].includes(pair.verdict);
    const size = (pair) => (isSure(pair) ? Math.log2(pair.value) : 0);
    const z = names.map((a) => names.map((b) => (cell(a, b) ? size(cell(a, b)) : null)));
    const text = names.map((a) => names.map((b) => (cell(a, b) ? `${cell(a, b).short}<br>${cell(a, b).verdict}` : "")));
    const most = Math.max(0.05, ...z.flat().filter((value) => value !== null).map(Math.abs));
    bench.draw(figure, [{ type: "heatmap", x: names, y: names, z, text, texttemplate: "%{text}", hovertemplate: "%{y} and %{x}: %{text}<extra></extra>", zmin: -most, zmax: most, colorscale: [[0, "#d55e00"], [0.5, "#b8bec4"], [1, "#0072b2"]], showscale: false, xgap: 2, ygap: 2 }], {
      height: 120 + 56 * names.length,
      yaxis: { autorange: "reversed" },
      margin: { l: 10, r: 16, t: 8, b: 10 },
    }, bench.listTexts(pairs.map((pair) => `${pair.switches.join(" and ")}: ${pair.short} ${pair.verdict}`)));
  }

  /** Where the pairs come from, if another run measured them: its times are not those of the switches. */
  function describePairsRun(one) {
    const run = one.pairs_run;
    return run ? [` Pairs were measured ${run.date} at commit `, bench.make("code", {}, run.commit || "unknown"), `; ${run.floor}.`] : [];
  }

  function fillSwitches(one) {
    const counts = bench.unique(one.switches.flatMap((row) => Object.keys(row.counts)));
    const modes = ["left out", "alone"].filter((_, number) => one.switches.some((row) => (number ? row.alone : row.left_out)));
    const headings = ["switch", "kind", ...modes.flatMap((mode) => [mode, `verdict ${mode}`]), ...counts].map((text) => ({ text }));
    const effect = (found) => [bench.make("td", {}, found ? found.text : ""), bench.make("td", { class: `value ${found ? found.verdict : ""}` }, found ? found.verdict : "")];
    const rows = one.switches.map((row) => bench.make("tr", { "data-switch": row.switch }, bench.make("th", { scope: "row" }, bench.make("code", {}, row.switch)), bench.make("td", {}, row.kind), modes.map((mode) => effect(mode === "alone" ? row.alone : row.left_out)), counts.map((name) => bench.make("td", { class: "number" }, row.counts[name] || ""))));
    const others = [...one.unreached.map((name) => [name, "not reached"]), ...one.inapplicable.map((name) => [name, "not applicable"])];
    rows.push(...others.map(([name, word]) => bench.make("tr", { class: "unreached" }, bench.make("th", { scope: "row" }, bench.make("code", {}, name)), bench.make("td", { colspan: 1 + 2 * modes.length + counts.length }, word))));
    bench.find("switches-section").hidden = !rows.length;
    bench.fillTable(bench.find("switches"), headings, rows);
    bench.listNotes(bench.find("notes"), one.notes.filter((note) => !note.startsWith("Not reached") && !note.startsWith("Not applicable")));
  }

  bench.makeFilters(bench.find("filters"), filters, (chosen) => {
    const one = of(chosen).find((found) => key(found) === chosen.case) || of(chosen)[0];
    if (!one) return;
    const whose = one.peer ? `These are switches of ${one.backend} itself. ` : "";
    bench.find("about").replaceChildren(whose, bench.make("code", {}, one.program), " taken apart in ", bench.make("code", {}, one.case), `; ${one.floor}. Measured ${one.date} on ${one.machine} at commit `, bench.make("code", {}, one.commit || "unknown"), ".", ...describePairsRun(one));
    drawEffects(one);
    drawPairs(one);
    fillSwitches(one);
  });
})();
