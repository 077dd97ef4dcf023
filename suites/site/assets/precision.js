// Time against the distance from float32, a card for each model.
"use strict";
(function () {
  const { groups, machines } = bench.data;
  const place = bench.find("groups");
  if (!place) return;
  const measured = machines.filter((machine) => groups.some((one) => one.machine === machine.name));
  const filters = [
    { key: "machine", label: "Machine", kind: "select", values: () => measured.map((one) => ({ value: one.name, text: `${one.text} (${one.name})` })) },
    { key: "model", label: "Model", kind: "select", all: "all models", values: (chosen) => bench.unique(groups.filter((one) => one.machine === chosen.machine).map((one) => one.model)).sort().map((one) => ({ value: one, text: one })) },
  ];
  const PRECISIONS = ["fp32", "bf16", "fp16", "int8_weight"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "star"];
  const getSymbol = (name) => SYMBOLS[Math.max(0, PRECISIONS.indexOf(name) < 0 ? 4 : PRECISIONS.indexOf(name))];

  const isUnknown = (one) => one.bytes === null;
  const MIDDLE = 0.25; // share of the largest, for a mark whose bytes are unknown
  const LEAST = 1e-14; // what float64 can tell; an exact answer has no place on a logarithmic axis
  const DECADES = [-14, -12, -10, -8, -6, -4, -2, 0, 2];
  const write = (power) => `10${[...String(power)].map((sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]).join("")}`;

  /** Area of a mark by its bytes. One whose bytes are unknown has a middle size and a hollow shape of its own. */
  function getSize(one, largest) {
    return 9 + 13 * Math.sqrt(isUnknown(one) ? MIDDLE : one.bytes / largest);
  }

  const writeDistance = (one) => (one.distance < LEAST ? `below ${LEAST.toExponential(0)}` : one.distance.toExponential(1));
  const getForm = (one) => (isUnknown(one) ? "pentagon-open-dot" : getSymbol(one.precision) + (one.front ? "" : "-open"));

  function drawGroup(figure, group) {
    const scored = group.entries.filter((one) => one.distance !== null);
    const largest = Math.max(...scored.map((one) => one.bytes || 0), 1);
    const traces = scored.map((one) => ({
      type: "scatter",
      mode: "markers",
      name: `${one.backend} ${one.precision}`,
      x: [one.speed],
      y: [Math.max(one.distance, LEAST)],
      error_x: one.low === null ? undefined : { type: "data", symmetric: false, array: [one.high - one.speed], arrayminus: [one.speed - one.low], thickness: 1, width: 2 },
      marker: { size: getSize(one, largest), symbol: getForm(one), color: bench.getColour(one.backend), line: { width: 2, color: bench.getColour(one.backend) } },
      hovertemplate: `${one.backend}, ${one.precision}<br>${one.speed.toFixed(2)}x the speed, ${group.measure === "cosine" ? "1 - cosine" : group.measure} ${writeDistance(one)}${isUnknown(one) ? ", bytes unknown" : ""}<extra></extra>`,
    }));
    bench.draw(figure, traces, {
      height: 320,
      showlegend: false,
      xaxis: { type: "log", title: { text: `speed against ${group.base}  → faster` }, tickvals: [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20], ticktext: ["0.1", "0.2", "0.3", "0.5", "0.7", "1", "1.5", "2", "3", "5", "10", "20"] },
      yaxis: { type: "log", title: { text: `closer ←  ${group.measure === "cosine" ? "1 - cosine" : group.measure} to float32` }, tickvals: DECADES.map((one) => 10 ** one), ticktext: DECADES.map((one) => (10 ** one === LEAST ? `≤${write(one)}` : write(one))) },
      margin: { l: 60, r: 12, t: 8, b: 44 },
    }, `${scored.map((one) => `${one.backend} in ${one.precision}: ${one.speed.toFixed(2)}x the speed, distance ${writeDistance(one)}`).join("; ")}.`);
  }

  /** The mark of a row in the chart above the table; rows without a distance have none. */
  function drawLegend(group, row) {
    const one = group.entries.find((entry) => entry.backend === row.backend && entry.precision === row.precision);
    if (!one || one.distance === null) return null;
    return bench.drawMark(isUnknown(one) ? "pentagon" : getSymbol(one.precision), bench.getColour(one.backend), isUnknown(one) || !one.front);
  }

  function makeCard(group) {
    const id = group.title.replace(/\W+/g, "-");
    const anchor = bench.make("a", { class: "anchor", href: "#", "data-permalink": id, title: "Link to this chart with these filters", "aria-label": `Link to ${group.title}` }, "#");
    const figure = bench.make("figure", { class: "chart" }, bench.make("div", { class: "plot", role: "img", "aria-label": `${group.title}: speed and distance from float32.` }));
    const headings = group.table.length ? Object.keys(group.table[0]).map((text) => ({ text: text || "front" })) : [];
    const table = bench.make("table", { class: "grid" });
    bench.fillTable(table, headings, group.table.map((row) => bench.make("tr", { "data-row": `${row.backend} ${row.precision}` }, Object.entries(row).map(([name, text]) => bench.make("td", {}, name === "backend" ? drawLegend(group, row) : null, text)))));
    const scroll = bench.make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${group.title}, numbers` }, table);
    const card = bench.make("section", { class: "card", id, "data-model": group.model }, bench.make("h2", {}, group.title, " ", anchor), figure, scroll, bench.make("ul", { class: "notes" }, [...group.notes, `Run ${group.run}, commit ${group.commit}. Filled marks, * in the column front: no other row is faster and at most as far from float32.`].map((one) => bench.make("li", {}, one))));
    return [card, figure];
  }

  bench.makeFilters(bench.find("filters"), filters, (chosen) => {
    const shown = groups.filter((one) => one.machine === chosen.machine && (!chosen.model || one.model === chosen.model));
    const made = shown.map(makeCard);
    place.className = "cards";
    place.replaceChildren(...made.map(([card]) => card));
    made.forEach(([, figure], number) => drawGroup(figure, shown[number]));
  });
})();
