// The engine over commits: times of neighbours, and counts of all stored runs.
"use strict";
(function () {
  const { tracks, stored, columns, machines } = bench.data;
  const nameMachine = (name) => {
    const known = machines.find((one) => one.name === name);
    return known ? `${known.text} (${name})` : name;
  };
  const asOptions = (values, write) => bench.unique(values).map((one) => ({ value: one, text: write ? write(one) : one }));
  const colour = (verdict) => bench.getVerdictColour(verdict);

  function describePoint(point) {
    const lines = [`${point.commit} ${point.subject}`, point.date];
    if (point.since_first) lines.push(`against the first commit ${point.since_first.text} ${point.since_first.interval}`);
    if (point.speed) lines.push(`against the commit before ${point.speed.text} ${point.speed.interval}: ${point.verdict}`);
    if (point.changes) lines.push(point.changes);
    if (point.reason) lines.push(point.reason);
    return lines.map(bench.escape).join("<br>");
  }

  function drawLevels(track) {
    const figure = bench.find("levels");
    if (bench.hide(figure, !track.timed)) return;
    const shown = track.points.filter((point) => point.since_first);
    const failed = track.points.filter((point) => point.note === "failed");
    const isStep = (point) => ["faster", "slower"].includes(point.verdict);
    const base = (points) => ({ type: "scatter", x: points.map((one) => one.commit), text: points.map(describePoint), hovertemplate: "%{text}<extra></extra>" });
    const traces = [
      {
        ...base(shown),
        name: "speed against the first commit",
        mode: "lines+markers",
        y: shown.map((one) => one.since_first.value),
        error_y: { type: "data", symmetric: false, array: shown.map((one) => one.since_first.high - one.since_first.value), arrayminus: shown.map((one) => one.since_first.value - one.since_first.low), thickness: 1.5, width: 3 },
        line: { shape: "hv", width: 1.5, color: bench.getColour("engine") },
        marker: { size: 10, symbol: shown.map((one) => (isStep(one) ? "circle" : "circle-open")), color: shown.map((one) => (isStep(one) ? colour(one.verdict) : bench.getColour("engine"))), line: { width: 1.5 } },
      },
    ];
    if (failed.length) traces.push({ ...base(failed), name: "no program", mode: "markers", y: failed.map(() => 1), marker: { size: 11, symbol: "x", color: bench.getVerdictColour("slower") } });
    const values = shown.flatMap((one) => [one.since_first.value, one.since_first.low, one.since_first.high]);
    bench.draw(figure, traces, {
      height: 340,
      showlegend: false,
      xaxis: { type: "category", categoryorder: "array", categoryarray: track.points.map((one) => one.commit), tickangle: -45, tickfont: { family: "ui-monospace, monospace", size: 11 } },
      yaxis: bench.describeFactors(values, "speed against the first commit  → faster", 240, 22),
      margin: { l: 10, r: 16, t: 8, b: 90 },
    }, bench.listTexts(track.points.map((point) => `${point.commit}: ${point.since_first ? point.since_first.text : point.note}`)));
  }

  function fillCommits(track) {
    const timed = track.timed;
    const headings = ["commit", "date", ...(timed ? ["speed", "verdict", "since first", "note"] : []), "counts", "subject"].map((text) => ({ text }));
    const rows = track.points.map((point) =>
      bench.make(
        "tr",
        { "data-commit": point.commit, class: point.note === "failed" ? "unreached" : null },
        bench.make("th", { scope: "row" }, bench.make("code", {}, point.commit)),
        bench.make("td", { class: "number" }, point.date),
        timed
          ? [
              bench.make("td", { class: "number" }, point.speed ? [`${point.speed.text} `, bench.make("span", { class: "interval" }, point.speed.interval)] : "-"),
              bench.make("td", { class: `value ${point.verdict || ""}` }, point.verdict || ""),
              bench.make("td", { class: "number" }, point.since_first ? point.since_first.text : "-"),
              bench.make("td", {}, point.note),
            ]
          : [],
        bench.make("td", { class: "long", title: point.reason }, point.counted),
        bench.make("td", { class: "long" }, point.skipped ? `${point.subject} (and ${bench.count(point.skipped, "commit")} before it)` : point.subject),
      ),
    );
    bench.fillTable(bench.find("commits"), headings, rows);
  }

  if (bench.find("filters")) {
    const of = (chosen) => tracks.filter((one) => (!chosen.machine || one.machine === chosen.machine) && (!chosen.run || one.run === chosen.run));
    const filters = [
      { key: "machine", label: "Machine", kind: "select", values: () => asOptions(tracks.map((one) => one.machine), nameMachine) },
      { key: "run", label: "Run", kind: "select", values: (chosen) => asOptions(of({ machine: chosen.machine }).map((one) => one.run)) },
      { key: "case", label: "Case", kind: "select", values: (chosen) => asOptions(of(chosen).map((one) => one.case)) },
    ];
    bench.makeFilters(bench.find("filters"), filters, (chosen) => {
      const track = of(chosen).find((one) => one.case === chosen.case) || of(chosen)[0];
      if (!track) return;
      bench.find("about").replaceChildren(bench.make("code", {}, track.case), `, ${track.start}. ${bench.count(track.points.length, "commit")}, measured ${track.date} on ${nameMachine(track.machine)}.`);
      bench.listNotes(bench.find("steps"), track.steps.length ? track.steps : [track.timed ? "No step: no commit is faster or slower than the one before it beyond noise, and no count changed." : "No count changed. Nothing was timed."]);
      drawLevels(track);
      fillCommits(track);
    });
  }

  /** The cases of stored runs, those with the most runs first. */
  function casesByRuns() {
    const runs = new Map();
    for (const one of stored) runs.set(one.case, (runs.get(one.case) || 0) + 1);
    return [...runs.keys()].sort((a, b) => runs.get(b) - runs.get(a) || a.localeCompare(b));
  }

  if (bench.find("count-filters")) {
    const filters = [
      { key: "counted", label: "Case", kind: "select", values: () => asOptions(casesByRuns()) },
      { key: "count", label: "Count", kind: "select", values: (chosen) => asOptions(columns.filter((name) => stored.some((one) => one.case === chosen.counted && one.counts[name] !== null))) },
    ];
    bench.makeFilters(bench.find("count-filters"), filters, (chosen) => {
      const rows = stored.filter((one) => one.case === chosen.counted && one.counts[chosen.count] !== null && one.counts[chosen.count] !== undefined);
      const order = bench.unique(rows.map((one) => one.run));
      const traces = bench.unique(rows.map((one) => one.machine)).map((machine, number) => {
        const mine = rows.filter((one) => one.machine === machine);
        return { type: "scatter", mode: "lines+markers", name: machine, x: mine.map((one) => one.run), y: mine.map((one) => one.counts[chosen.count]), text: mine.map((one) => `${one.date}, commit ${one.commit}`), hovertemplate: "%{text}: %{y:,}<extra>%{fullData.name}</extra>", line: { shape: "hv", width: 1.5, color: bench.getMark(number).color }, marker: { size: 9, ...bench.getMark(number) } };
      });
      const dates = order.map((run) => rows.find((one) => one.run === run).date.slice(0, 10));
      const ticks = order.filter((_, index) => index === 0 || dates[index] !== dates[index - 1]);
      bench.draw(bench.find("stored"), traces, {
        height: 320,
        xaxis: { type: "category", categoryorder: "array", categoryarray: order, tickvals: ticks, ticktext: ticks.map((run) => dates[order.indexOf(run)]) },
        yaxis: { title: { text: chosen.count.replaceAll("_", " "), standoff: 8 }, rangemode: "tozero" },
        legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
        margin: { l: 10, r: 16, t: 50, b: 50 },
      }, bench.listTexts(rows.map((row) => `${row.date}, ${row.machine}: ${row.counts[chosen.count]}`)));
    });
  }
})();
