// The launches of a profiled call: their roofline, and a table of all.
"use strict";
(function () {
  /** Lines of one core's roof from the smallest to the largest intensity of the points. */
  function drawRoof(profile) {
    const knee = profile.peak / profile.bandwidth;
    const intensities = [...profile.points.map((point) => point.intensity), knee];
    const x = [Math.min(...intensities) / 2, knee, Math.max(...intensities) * 2];
    const y = x.map((value) => Math.min(profile.peak, value * profile.bandwidth) / 1e9);
    return { type: "scatter", mode: "lines", name: "roof of one core", x, y, line: { color: "#7a7f85", width: 1.5 }, hoverinfo: "name" };
  }

  function drawRoofline(profile) {
    const figure = bench.find("nodes");
    if (bench.hide(figure, !profile.points.length)) return;
    const ops = bench.unique(profile.points.map((point) => point.op));
    const most = Math.max(...profile.points.map((point) => point.time));
    const marks = ops.map((op, number) => {
      const members = profile.points.filter((point) => point.op === op);
      return {
        type: "scatter",
        mode: "markers",
        name: op,
        x: members.map((point) => point.intensity),
        y: members.map((point) => point.rate / 1e9),
        text: members.map((point) => `launch ${point.index}, ${op}: ${(100 * point.time).toFixed(1)}% of the time${point.roof === null ? "" : `, ${Math.round(100 * point.roof)}% of the roof of ${point.bound === "memory" ? "memory" : "arithmetic"}`}`),
        marker: { size: members.map((point) => 7 + 15 * Math.sqrt(point.time / most)), ...bench.getMark(number) },
        hovertemplate: "%{text}<br>%{y:.4g} GFLOP/s<extra></extra>",
      };
    });
    bench.draw(figure, [...(profile.peak && profile.bandwidth ? [drawRoof(profile)] : []), ...marks], {
      height: 440,
      xaxis: bench.describeLog(profile.points.map((point) => point.intensity), "operations for each byte"),
      yaxis: bench.describeLog(profile.points.map((point) => point.rate / 1e9), "10⁹ operations a second  → better"),
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", itemsizing: "constant" },
      margin: { l: 60, r: 16, t: 34, b: 48 },
    }, bench.listTexts(profile.points.map((point) => `launch ${point.index}, ${point.op}: ${(point.rate / 1e9).toPrecision(3)} GFLOP/s`)));
  }

  function fillTable(profile) {
    const names = Object.keys(profile.table[0]);
    const isText = (name) => ["op", "kernel", "output", "module"].includes(name);
    const rows = profile.table.map((cells) => bench.make("tr", { "data-launch": cells.launch }, names.map((name, number) => (number ? bench.make("td", { class: isText(name) ? "" : "number" }, name === "kernel" ? bench.make("code", {}, cells[name]) : cells[name]) : bench.make("th", { scope: "row", class: "number" }, cells[name])))));
    bench.fillTable(bench.find("nodes-table"), names.map((text) => ({ text, class: isText(text) ? "" : "number" })), rows);
  }

  /** Show the profile of a case; `others` are the profiles of the model on this machine, named if there is none. */
  bench.showProfile = function (profile, others) {
    const about = bench.find("profile");
    if (!about) return;
    bench.find("profiled").hidden = !profile;
    if (!profile) {
      bench.find("nodes-table").replaceChildren();
      bench.hide(bench.find("nodes"), true);
      const links = others.map((one) => [" ", bench.make("a", { href: `#${new URLSearchParams({ machine: one.machine, case: one.case, show: "launches" })}` }, bench.make("code", {}, one.case))]);
      about.replaceChildren("No profile of this case is stored for this machine.", ...(links.length ? [" Profiles of these cases are stored:", ...links.flat(), "."] : []));
      return;
    }
    about.replaceChildren(bench.make("code", {}, profile.case), ", ", bench.make("code", {}, profile.backend), `; ${profile.roofs}. Measured ${profile.date} at commit `, bench.make("code", {}, profile.commit || "unknown"), profile.dirty ? " (with changes)" : "", ", run ", bench.make("code", {}, profile.run), ".");
    drawRoofline(profile);
    fillTable(profile);
  };
})();
