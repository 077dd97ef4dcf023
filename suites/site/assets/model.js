// A model: the backends of one case, and how time grows with the sizes of all its cases.
"use strict";
(function () {
  const { entries, machines, growth, roofs, profiles } = bench.data;
  // A case that was profiled and never measured beside other backends has a profile and nothing else.
  const alone = profiles.filter((one) => !entries.some((entry) => entry.machine === one.machine && entry.case === one.case)).map((one) => ({ ...one, name: one.case, io: "torch" }));
  const known = [...entries, ...alone];

  const shared = bench.describeFilters(known, machines);
  const filters = [
    ...shared,
    { key: "case", label: "Case", kind: "select", values: (chosen) => listCases(chosen) },
    { key: "program", label: "Profile of", kind: "select", values: (chosen) => findProfiles(chosen).map((one) => ({ value: one.backend, text: one.backend })) },
  ];

  const SAID = { faster: "faster beyond noise", slower: "slower beyond noise", same: "the same", unclear: "within noise" };

  function listCases(chosen) {
    const found = known.filter((one) => bench.matches(one, chosen));
    return bench.unique(found.map((one) => one.case)).map((value) => {
      const one = found.find((entry) => entry.case === value);
      return { value, text: alone.includes(one) ? `${value}, only profiled` : `${one.name}, ${bench.count(one.threads, "thread")}, ${one.precision}${one.io === "torch" ? "" : `, ${one.io}`}` };
    });
  }

  function findProfiles(chosen) {
    return profiles.filter((one) => one.machine === chosen.machine && one.case === chosen.case);
  }

  const FORMS = ["", "-open", "-open-dot"];
  /** The shape of a backend. Forms of one, and others of its shape, are hollow, then dotted, then have another shape. */
  function getForm(entry, row) {
    const members = entry.rows.map((one) => one.label).filter((label) => bench.getShape(label) === bench.getShape(row.label));
    const plain = [...members].sort((a, b) => a.includes("[") - b.includes("["));
    const form = FORMS[plain.indexOf(row.label)];
    return form === undefined ? "hourglass" : bench.getShape(row.label) + form;
  }

  function drawLatency(entry) {
    const figure = bench.find("latency");
    const timed = entry.rows.filter((row) => row.seconds !== null && (row.lead || row.label === entry.engine));
    if (bench.hide(figure, timed.length < 2)) return;
    const points = timed.map((row) => ({
      name: row.short,
      value: row.lead ? row.lead.value : 1,
      low: row.lead ? row.lead.low : 1,
      high: row.lead ? row.lead.high : 1,
      colour: bench.getColour(row.label),
      symbol: getForm(entry, row),
      text: `${row.label}: ${row.text}${entry.per === "token" ? " a token" : ""}` + (row.lead ? `, engine ${row.lead.text} ${row.lead.interval} as fast` : ""),
    }));
    bench.drawIntervals(figure, [{ name: "engine", points }], "engine slower  ←  speed of the engine against the backend  →  engine faster");
  }

  const writeRate = (value) => (value >= 1000 ? Math.round(value).toLocaleString("en") : value.toPrecision(3));

  function fillRows(entry) {
    const isToken = entry.per === "token";
    const headings = ["backend", "latency", ...(isToken ? ["tokens/s"] : []), "middle half", "the engine against it", "90th percentile", "shortest", "of roof"].map((text, number) => ({ text, class: number && text !== "the engine against it" ? "number" : "" }));
    const rows = entry.rows.map((row) => {
      const label = bench.make("th", { scope: "row" }, bench.make("code", {}, row.short), row.short === row.label ? null : bench.make("small", {}, row.label), row.fault ? bench.make("small", {}, " superseded: see below") : null);
      if (row.seconds === null) return bench.make("tr", { "data-backend": row.label }, label, bench.make("td", { class: ["unavailable", "not applicable"].includes(row.status) ? "nothing" : "wrong" }, row.status), bench.make("td", { colspan: isToken ? 6 : 5, class: "nothing" }, row.reason || ""));
      const per = isToken ? "/token" : "";
      const number = (text) => bench.make("td", { class: "number" }, text);
      const cells = [label, bench.make("td", { class: `number${row.label === entry.fastest ? " best" : ""}` }, row.text + per), isToken ? number(writeRate(1 / row.seconds)) : null, number(row.quartiles || "-"), bench.make("td", { class: "against" }, row.lead ? [bench.writeLead(row.lead), ` ${row.lead.verdict}`] : row.label === entry.engine ? "1x" : "-"), number(row.p90 === null ? "-" : `${row.p90.toFixed(2)}x median`), number(row.min === null ? "-" : `${row.min.toFixed(2)}x median`), number(row.roof_share === null ? "-" : `${Math.round(100 * row.roof_share)}%`)];
      return bench.make("tr", { "data-backend": row.label }, cells);
    });
    bench.fillTable(bench.find("rows"), headings, rows);
    fillQuantities(entry);
    // the table says itself why a backend has no time
    const isInTable = (note) => entry.rows.some((row) => row.seconds === null && row.reason && note.startsWith(`${row.label} ${row.status}`));
    const faults = entry.rows.filter((row) => row.fault).map((row) => `${row.label} superseded: ${row.fault}`);
    bench.listNotes(bench.find("notes"), [...entry.notes.filter((note) => !isInTable(note)), ...faults]);
  }

  /** Every quantity, a column for each backend that has one at least. */
  function fillQuantities(entry) {
    const shown = [...entry.rows.keys()].filter((column) => Object.values(entry.quantities).some((values) => values[column] !== "-"));
    const labels = shown.map((column) => ({ text: entry.rows[column].label, class: "number" }));
    const lines = Object.entries(entry.quantities).map(([name, values]) => bench.make("tr", {}, bench.make("th", { scope: "row" }, name), shown.map((column) => bench.make("td", { class: "number" }, values[column]))));
    bench.fillTable(bench.find("quantities"), [{ text: "quantity" }, ...labels], lines);
  }

  const seconds = (value) => (value >= 1 ? `${value.toPrecision(3)} s` : value >= 1e-3 ? `${(value * 1e3).toPrecision(3)} ms` : `${(value * 1e6).toPrecision(3)} us`);
  const bytes = (value) => (value >= 2 ** 30 ? `${(value / 2 ** 30).toFixed(2)} GiB` : `${(value / 2 ** 20).toFixed(1)} MiB`);

  function drawPreparation(entry) {
    const names = { import: "import", export: "export", compile: "compile", first_call: "first call" };
    // a backend that was imported and then did not run the case has no answer
    const rows = entry.rows.filter((row) => ["export", "compile", "first_call"].some((key) => row.preparation[key] !== null));
    const figure = bench.find("preparation");
    if (bench.hide(figure, !rows.length)) return;
    const parts = Object.entries(names).map(([key, name]) => ({ name, values: rows.map((row) => row.preparation[key] || 0), texts: rows.map((row) => (row.preparation[key] === null ? "none" : seconds(row.preparation[key]))) }));
    bench.drawBars(figure, rows.map((row) => row.short), parts, "better ←  seconds");
  }

  function drawMemory(entry) {
    const rows = entry.rows.filter((row) => row.peak_bytes || row.weight_bytes);
    const figure = bench.find("memory");
    if (bench.hide(figure, !rows.length)) return;
    const parts = [["peak of the process", "peak_bytes"], ["weights", "weight_bytes"]].map(([name, key]) => ({ name, values: rows.map((row) => (row[key] || 0) / 2 ** 20), texts: rows.map((row) => (row[key] ? bytes(row[key]) : "unknown")) }));
    bench.drawBars(figure, rows.map((row) => row.short), parts, "better ←  MiB", { barmode: "group", height: Math.max(180, 44 * rows.length + 110) });
  }

  const DASHES = ["solid", "dash", "dot", "dashdot"]; // by the number of threads

  function drawGrowth(chosen) {
    const found = growth.filter((one) => bench.matches(one, chosen));
    const figure = bench.find("growth");
    if (bench.hide(figure, !found.length)) return;
    const threads = bench.unique(found.map((one) => one.threads)).sort((a, b) => a - b);
    const axes = bench.unique(found.map((one) => one.axis));
    // the legend says what differs among the lines; the filters and the axis say the rest
    const parts = found.map((one) => one.fixed.split(", "));
    const isCommon = (part) => parts.every((others) => others.includes(part));
    const describe = (one, number) => [one.backend, ...(axes.length > 1 ? [one.axis] : []), ...parts[number].filter((part) => !isCommon(part))].join(", ");
    const traces = found.map((one, number) => ({
      type: "scatter",
      mode: "lines+markers",
      name: `${describe(one, number)}: ${one.known ? `${one.exponent.toFixed(2)} [${one.low.toFixed(2)}, ${one.high.toFixed(2)}]` : "too few sizes"}`,
      x: one.points.map((point) => point.size),
      y: one.points.map((point) => point.seconds * 1e3),
      marker: { symbol: bench.getShape(one.backend), size: 9, color: bench.getColour(one.backend) },
      line: { color: bench.getColour(one.backend), dash: DASHES[threads.indexOf(one.threads) % DASHES.length] },
      hovertemplate: `${one.backend}<br>${one.axis} %{x}: %{y:.4g} ms<extra></extra>`,
    }));
    bench.draw(figure, traces, {
      height: 380 + 18 * traces.length,
      xaxis: { type: "log", title: { text: [axes.join(", "), ...parts[0].filter(isCommon)].join("; ") }, tickvals: bench.unique(found.flatMap((one) => one.points.map((point) => point.size))) },
      yaxis: bench.describeLog(found.flatMap((one) => one.points.map((point) => point.seconds * 1e3)), "better ←  milliseconds a call"),
      legend: { orientation: "v", x: 0, y: -0.2, yanchor: "top" },
      margin: { l: 60, r: 16, t: 8, b: 44 },
    });
  }

  function drawRoofline(entry, chosen) {
    const rows = entry.rows.filter((row) => row.rate && row.intensity);
    const limits = roofs.filter((one) => one.machine === entry.machine && one.threads === entry.threads);
    const memory = limits.find((one) => one.name === "memory");
    const figure = bench.find("roofline");
    bench.listNotes(bench.find("roof-notes"), []);
    if (bench.hide(figure, !rows.length || !memory)) return;
    const peak = limits.find((one) => one.name === entry.roof);
    const doubtful = (one) => (one.believed ? "" : ", doubtful");
    bench.listNotes(bench.find("roof-notes"), [
      peak ? null : `No roof of ${entry.roof} arithmetic is known for this machine at ${bench.count(entry.threads, "thread")}; the line is that of memory alone.`,
      ...[peak, memory].filter((one) => one && !one.believed).map((one) => `The roof of ${one.name} is doubtful: its measurement was disturbed, or is not plausible. No share of the roof is stated by it.`),
    ].filter(Boolean));
    const most = Math.max(...rows.map((row) => row.intensity), peak ? peak.rate / memory.rate : 0) * 4;
    const least = Math.min(...rows.map((row) => row.intensity)) / 4;
    const x = [least, peak ? peak.rate / memory.rate : least, most].filter((value) => value >= least && value <= most);
    const sure = memory.believed && (!peak || peak.believed);
    const line = {
      type: "scatter",
      mode: "lines",
      name: peak ? `memory${doubtful(memory)}, then ${peak.name} arithmetic${doubtful(peak)}` : `memory${doubtful(memory)}`,
      x,
      y: x.map((value) => Math.min(peak ? peak.rate : Infinity, value * memory.rate) / 1e9),
      line: { dash: sure ? "solid" : "dash", color: "#7a7f85", width: 1.5 },
      hoverinfo: "name",
    };
    const traces = [
      line,
      ...rows.map((row) => ({
        type: "scatter",
        mode: "markers",
        name: row.short,
        x: [row.intensity],
        y: [row.rate / 1e9],
        marker: { size: 11, symbol: getForm(entry, row), color: bench.getColour(row.label), line: { width: 1.5, color: bench.getColour(row.label) } },
        hovertemplate: `${row.label}: %{y:.4g} GFLOP/s${row.roof_share === null ? "" : `, ${Math.round(100 * row.roof_share)}% of the roof`}<extra></extra>`,
      })),
    ];
    bench.draw(figure, traces, {
      height: 380 + 20 * traces.length,
      xaxis: bench.describeLog(x, "operations for each byte"),
      yaxis: bench.describeLog([...line.y, ...rows.map((row) => row.rate / 1e9)], "10⁹ operations a second  → better"),
      legend: { orientation: "v", x: 0, y: -0.2, yanchor: "top" },
      margin: { l: 60, r: 16, t: 8, b: 44 },
    });
  }

  bench.makeFilters(bench.find("filters"), filters, (chosen) => {
    const entry = entries.find((one) => one.machine === chosen.machine && one.case === chosen.case);
    bench.showProfile(findProfiles(chosen).find((one) => one.backend === chosen.program), profiles.filter((one) => one.machine === chosen.machine));
    bench.find("measured").hidden = !entry;
    if (!entry) {
      bench.find("about").textContent = chosen.case ? "This case was profiled, and not measured beside other backends." : "No case fits these filters.";
      return;
    }
    const best = entry.best ? ` The engine against ${entry.best.other}: ${entry.best.text} ${entry.best.interval}, ${SAID[entry.best.verdict]}.` : "";
    bench.find("about").replaceChildren(`${entry.title}.${best} Measured ${entry.date} at commit `, bench.make("code", {}, entry.commit || "unknown"), entry.dirty ? " (with changes)" : "", ", run ", bench.make("code", {}, entry.run), ".");
    drawLatency(entry);
    fillRows(entry);
    drawPreparation(entry);
    drawMemory(entry);
    drawGrowth(chosen);
    drawRoofline(entry, chosen);
  });
})();
