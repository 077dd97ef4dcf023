// Kernels by themselves: the share of the roof by size and instruction set, and the time beside torch and OpenBLAS.
"use strict";
(function () {
  const { groups, machines } = bench.data;
  if (!bench.find("kernels")) return;
  const rows = groups.flatMap((group) => group.rows.map((row) => ({ ...row, group, machine: group.machine, isa: group.isa })));
  const isas = bench.unique(rows.map((row) => row.isa)).sort();
  const bounds = { compute: "arithmetic", memory: "memory", unknown: "no roof known" };
  const bound = (row) => row.bound || "unknown";
  const keys = { machine: (row) => row.machine, isa: (row) => row.isa, op: (row) => row.op, bound };
  const of = (chosen) => rows.filter((row) => Object.entries(keys).every(([key, read]) => !chosen[key] || read(row) === chosen[key]));
  const same = (value) => ({ value, text: value });
  const filters = [
    { key: "machine", label: "Machine", kind: "select", values: () => machines.map((one) => ({ value: one.name, text: `${one.text} (${one.name})` })) },
    { key: "op", label: "Op", kind: "select", all: "all ops", values: (chosen) => bench.unique(of({ machine: chosen.machine }).map((row) => row.op)).sort().map(same) },
    { key: "isa", label: "Instruction set", kind: "choice", all: "all", values: (chosen) => bench.unique(of({ machine: chosen.machine }).map((row) => row.isa)).sort().map(same) },
    { key: "bound", label: "Bound by", kind: "choice", all: "all", values: (chosen) => Object.keys(bounds).filter((name) => of({ machine: chosen.machine, op: chosen.op, isa: chosen.isa }).some((row) => bound(row) === name)).map((value) => ({ value, text: bounds[value] })) },
    { key: "by", label: "Share by", kind: "choice", values: () => [{ value: "executed", text: "what is executed" }, { value: "op", text: "work of the op" }] },
    { key: "find", label: "Kernel or size contains", kind: "search" },
  ];

  /** One mark a kernel and size, one series an instruction set; `read` gives the two numbers of a row. */
  function drawMarks(figure, found, read, layout) {
    if (bench.hide(figure, !found.length)) return;
    const traces = isas.filter((isa) => found.some((row) => row.isa === isa)).map((isa) => {
      const members = found.filter((row) => row.isa === isa);
      const points = members.map(read);
      return {
        type: "scatter",
        mode: "markers",
        cliponaxis: false, // marks at the ends of the axes are whole
        name: isa,
        showlegend: true,
        x: points.map((point) => point.x),
        y: points.map((point) => point.y),
        text: members.map((row) => `${row.kernel}<br>${row.name}: ${row.cells.time}`),
        customdata: points.map((point) => point.text),
        marker: { size: 9, ...bench.getMark(isas.indexOf(isa)) },
        hovertemplate: "%{text}, %{customdata}<extra></extra>",
      };
    });
    bench.draw(figure, traces, {
      height: 380,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      margin: { l: 60, r: 16, t: 34, b: 48 },
      ...layout,
    }, bench.listTexts(found.map((row) => `${row.kernel}, ${row.name}: ${read(row).text}`)));
  }

  const FLOPS = { key: "flops", title: "operations of the op", ticks: [[1e5, "10⁵"], [1e6, "10⁶"], [1e7, "10⁷"], [1e8, "10⁸"], [1e9, "10⁹"], [1e10, "10¹⁰"], [1e11, "10¹¹"]] };
  const BYTES = { key: "bytes", title: "bytes read and written", ticks: [[5e7, "50 MB"], [1e8, "100 MB"], [2e8, "200 MB"], [5e8, "500 MB"], [1e9, "1 GB"], [2e9, "2 GB"]] };
  const line = (y) => ({ type: "line", x0: 0, x1: 1, xref: "paper", y0: y, y1: y, line: { color: getComputedStyle(document.body).color, width: 1, dash: "dot" } });

  function drawShares(name, found, by, xaxis) {
    const read = (row) => (by === "executed" ? row.executed : row.share);
    const bounded = found.filter((row) => row.bound === name && read(row) !== null && row[xaxis.key]);
    const isSaving = (row) => by === "op" && row.executed !== null && row.share > 1.01 * row.executed;
    const most = Math.max(1, ...bounded.map(read));
    drawMarks(bench.find(name), bounded, (row) => ({ x: row[xaxis.key], y: read(row), text: `${Math.round(100 * read(row))}% of the roof${isSaving(row) ? ", operations saved" : ""}` }), {
      xaxis: { type: "log", range: bench.getLogRange(bounded.map((row) => row[xaxis.key])), title: { text: xaxis.title, standoff: 8 }, tickvals: xaxis.ticks.map(([value]) => value), ticktext: xaxis.ticks.map(([, text]) => text) },
      yaxis: { title: { text: "share of the roof  → better" }, tickformat: ".0%", range: [0, most * 1.06] },
      shapes: [line(1)],
    });
  }

  function drawSpeeds(name, found, words) {
    const compared = found.filter((row) => row[name] !== null);
    const factors = bench.describeFactors(compared.map((row) => row[name]), `speed against ${words}  → better`, 240, 22);
    drawMarks(bench.find(name), compared, (row) => ({ x: row.seconds, y: row[name], text: `${row[name].toFixed(2)}x the speed of ${words}` }), {
      xaxis: { type: "log", range: bench.getLogRange(compared.map((row) => row.seconds)), title: { text: "time of the kernel", standoff: 8 }, tickvals: [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1], ticktext: ["1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms"] },
      yaxis: factors,
      shapes: [line(1)],
    });
  }

  function fillTable(found) {
    const names = found.length ? Object.keys(found[0].cells) : [];
    const headings = [...names.slice(0, 2), "instruction set", ...names.slice(2)];
    const isText = (name) => ["kernel", "shape", "instruction set"].includes(name);
    const filled = found.map((row) => {
      const cells = { ...row.cells, "instruction set": row.isa };
      return bench.make("tr", { "data-kernel": row.kernel, "data-size": row.name, "data-isa": row.isa }, headings.map((name, number) => (number ? bench.make("td", { class: isText(name) ? "" : "number" }, cells[name]) : bench.make("th", { scope: "row" }, bench.make("code", {}, cells[name])))));
    });
    bench.fillTable(bench.find("kernels"), headings.map((text) => ({ text, class: isText(text) ? "" : "number" })), filled);
  }

  function describe(found) {
    const used = groups.filter((group) => found.some((row) => row.group === group));
    const more = found.length === 1 ? "1 measurement of a kernel at a size" : `${found.length} measurements, each of a kernel at a size`;
    bench.find("about").textContent = found.length ? `${more}, on one thread.` : "No kernel fits these filters.";
    bench.listNotes(bench.find("notes"), used.map((group) => `${group.roofs}. Measured ${group.date} at commit ${group.commit || "unknown"}${group.dirty ? " (with changes)" : ""}, run ${group.run}.`));
  }

  bench.makeFilters(bench.find("filters"), filters, (chosen) => {
    const wanted = chosen.find.toLowerCase();
    const found = of(chosen).filter((row) => !wanted || `${row.kernel} ${row.name}`.toLowerCase().includes(wanted));
    describe(found);
    drawShares("compute", found, chosen.by, FLOPS);
    drawShares("memory", found, chosen.by, BYTES);
    drawSpeeds("torch", found, "torch");
    drawSpeeds("openblas", found, "OpenBLAS");
    fillTable(found);
  });
})();
