// Charts, drawn by plotly.js in the colours of the page. Each function takes a figure element and plain points.
"use strict";
(function () {
  // Hues of Okabe and Ito, "Color universal design" (2008): distinguishable without red-green vision. Each backend also has
  // a shape. On a light page some are darker than there, so that all have a contrast of 3 to the page.
  const PALETTES = {
    light: ["#0072b2", "#b87800", "#00875f", "#b8578d", "#2e94cc", "#d55e00", "#7a7000", "#6a6f75"],
    dark: ["#3d9bdc", "#e69f00", "#1fb892", "#d98fb6", "#7cc8f2", "#f0803c", "#b5a800", "#9aa0a6"],
  };
  const SHAPES = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon"];
  const KNOWN = ["engine", "eager", "onnxruntime", "openvino", "torch_compile", "llama_cpp", "torchao", "onnxruntime_dynamic"];
  const others = [];

  function place(label) {
    const name = label.replace(/[[@#].*/, "");
    const known = KNOWN.indexOf(name);
    if (known >= 0) return known;
    if (!others.includes(name)) others.push(name);
    return (KNOWN.length - 1 + others.indexOf(name)) % SHAPES.length;
  }

  const colours = () => PALETTES[bench.isDark() ? "dark" : "light"];
  /** Colour and shape of the series of that number; an outline keeps marks apart that overlap. */
  bench.getMark = (number) => ({ color: colours()[number % colours().length], symbol: SHAPES[number % SHAPES.length], opacity: 1, line: { width: 1, color: read("--page") } });
  bench.getColour = (label) => colours()[place(label)];
  bench.getShape = (label) => SHAPES[place(label)];
  const read = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  bench.getVerdictColour = (verdict) => read(["faster", "slower"].includes(verdict) ? `--${verdict}` : "--unclear");

  const OUTLINES = {
    circle: "M8 2a6 6 0 1 0 0.01 0Z",
    square: "M3 3H13V13H3Z",
    diamond: "M8 1.5L14.5 8L8 14.5L1.5 8Z",
    "triangle-up": "M8 2L14.5 13.5H1.5Z",
    pentagon: "M8 1.5L14.5 6.3L12 14H4L1.5 6.3ZM8 8V8.5",
    star: "M8 1L10 6H15L11 9.2L12.5 14.5L8 11.4L3.5 14.5L5 9.2L1 6H6Z",
  };

  /** A mark as charts draw it, for a table that is their legend; it says nothing that the text beside it does not. */
  bench.drawMark = function (symbol, colour, isOpen) {
    const make = (name, attributes) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      return made;
    };
    const svg = make("svg", { viewBox: "0 0 16 16", width: "14", height: "14", "aria-hidden": "true", class: "mark" });
    svg.append(make("path", { d: OUTLINES[symbol], fill: isOpen ? "none" : colour, stroke: colour, "stroke-width": "2" }));
    return svg;
  };

  function makeLayout(further) {
    const axis = { gridcolor: read("--rule"), linecolor: read("--rule"), zerolinecolor: read("--rule"), automargin: true };
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: innerWidth < 640 ? 11 : 13, color: read("--text") },
      margin: { l: 10, r: 16, t: 8, b: 44 },
      hoverlabel: { bgcolor: read("--panel"), bordercolor: read("--rule"), font: { color: read("--text") } },
      legend: { orientation: "h", y: -0.18, yanchor: "top" },
      ...further,
      ...(bench.getPaperWidth() ? { width: bench.getPaperWidth(), autosize: false } : {}),
      xaxis: { ...axis, ...(further.xaxis || {}) },
      yaxis: { ...axis, ...(further.yaxis || {}) },
    };
  }

  // Plotly's script is the largest file and the last one: until it is here, the newest chart of each figure waits.
  const waiting = new Map();
  const later = [];
  document.addEventListener("DOMContentLoaded", () => {
    for (const drawNow of waiting.values()) drawNow();
    waiting.clear();
    for (const use of later.splice(0)) use();
  });

  /** Call `use` when the charts that were asked for so far have their heights. */
  bench.afterCharts = (use) => (waiting.size ? later.push(use) : use());

  /** Draw a chart; `text` says in words what it shows, for those who do not see it. */
  bench.draw = function (figure, traces, layout, text) {
    const plot = figure.querySelector(".plot");
    plot.dataset.label ??= plot.getAttribute("aria-label");
    if (text) plot.setAttribute("aria-label", `${plot.dataset.label} ${text}`);
    const drawNow = () => Plotly.react(plot, traces, makeLayout(layout), { displayModeBar: false, responsive: true });
    if (window.Plotly) drawNow();
    else waiting.set(plot, drawNow);
  };

  const MOST_READ = 40;
  /** The text of many points: the first ones, and how many there are besides. */
  bench.listTexts = function (texts) {
    const more = texts.length > MOST_READ ? `; and ${texts.length - MOST_READ} more` : "";
    return `${texts.slice(0, MOST_READ).join("; ")}${more}.`;
  };

  bench.hide = function (figure, isHidden) {
    figure.hidden = isHidden;
    return isHidden;
  };

  const STEPS = [[0.8, [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8]], [2.5, [1, 2, 5]], [Infinity, [1]]];
  /** A logarithmic axis with the value of every tick in full: plotly writes 20 as "2", which is read as 2. */
  bench.describeLog = function (values, title) {
    const known = values.filter((value) => value > 0);
    const [low, high] = known.length ? [Math.log10(Math.min(...known)), Math.log10(Math.max(...known))] : [0, 0];
    const [, steps] = STEPS.find(([decades]) => high - low < decades);
    const ticks = [];
    for (let power = Math.floor(low) - 1; power <= high + 1; power += 1) ticks.push(...steps.map((step) => Number(`${step}e${power}`)));
    return { type: "log", title: { text: title, standoff: 8 }, tickvals: ticks, ticktext: ticks.map((one) => (one >= 1e6 || one < 1e-4 ? one.toExponential() : String(one))), tickangle: 0 };
  };

  /** Range of a logarithmic axis that shows these values, and at least a factor of three. */
  bench.getLogRange = (values) => [Math.log10(Math.min(...values) / 1.75), Math.log10(Math.max(...values) * 1.75)];

  // The important ones first: an earlier one keeps a later one away that is too near.
  const FACTORS = [1, 2, 0.5, 10, 0.1, 5, 0.2, 100, 0.01, 1000, 20, 50, 200, 500, 0.05, 0.02, 1.5, 0.7, 3, 0.3, 7, 1.25, 0.8, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98];
  const LEAST_PIXELS = 46;

  const isNarrow = () => innerWidth < 640;
  /** Plotly reads some tags in its texts; what a record says is text. */
  bench.escape = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;");

  /** An axis of factors, 0.5x, 1x, 2x, with as many ticks as fit into `pixels`, `least` pixels apart. */
  bench.describeFactors = function (values, title, pixels, least = LEAST_PIXELS) {
    const low = Math.min(1, ...values) / 1.08;
    const high = Math.max(1, ...values) * 1.08;
    const place = (value) => (Math.log(value / low) / Math.log(high / low)) * pixels;
    const ticks = [];
    for (const one of FACTORS) {
      if (one >= low && one <= high && ticks.every((other) => Math.abs(place(one) - place(other)) >= least)) ticks.push(one);
    }
    ticks.sort((a, b) => a - b);
    return {
      type: "log",
      title: { text: title, standoff: 8, font: { size: isNarrow() ? 11 : 13 } },
      tickvals: ticks,
      ticktext: ticks.map((one) => `${one}x`),
      tickangle: 0,
      range: [Math.log10(low), Math.log10(high)],
    };
  };

  // Titles have an arrow to the better end. Those of vertical axes read upwards, where "→" points up and "←" down.

  /** "worse ← what → better", in two lines where one of `pixels` is too short. */
  function breakTitle(title, pixels) {
    const [left, middle, right] = title.split(/ +[←→] +/);
    return right && 7 * title.length > pixels ? `${left} ← → ${right}<br>${middle}` : title;
  }

  function describeIntervals(one) {
    const points = one.points.map((point) => ({ ...point, name: bench.escape(point.name) }));
    const colours = points.map((point) => point.colour);
    return {
      type: "scatter",
      mode: "markers",
      name: one.name,
      y: points.map((point) => point.name),
      x: points.map((point) => point.value),
      error_x: {
        type: "data",
        symmetric: false,
        array: points.map((point) => (point.high ?? point.value) - point.value),
        arrayminus: points.map((point) => point.value - (point.low ?? point.value)),
        thickness: 1.5,
        width: 3,
        color: points.length === 1 ? colours[0] : read("--soft"),
      },
      marker: { size: 10, symbol: points.map((point) => point.symbol || "circle"), color: colours, line: { width: 1.5, color: colours } },
      text: points.map((point) => bench.escape(point.text)),
      hovertemplate: "%{y}<br>%{text}<extra></extra>",
    };
  }

  /** The side of 1x on which the engine, or the switch, is slower has another ground than the side on which it is faster. */
  function describeSides([low, high]) {
    const side = (x0, x1, name) => ({ type: "rect", x0, x1, y0: 0, y1: 1, yref: "paper", layer: "below", line: { width: 0 }, fillcolor: read(name), opacity: 0.45 });
    const line = { type: "line", x0: 1, x1: 1, y0: 0, y1: 1, yref: "paper", line: { color: read("--text"), width: 1, dash: "dot" } };
    return [side(10 ** low, 1, "--slower-fill"), side(1, 10 ** high, "--faster-fill"), line];
  }

  /** Points with intervals, one a line; points are {name, value, low, high, colour, symbol, text}, topmost first. */
  bench.drawIntervals = function (figure, series, title) {
    const lines = bench.unique(series.flatMap((one) => one.points.map((point) => bench.escape(point.name))));
    const longest = Math.max(...lines.map((line) => line.length));
    // names of many letters would leave a phone no room for the chart, so they stand above their marks
    const isAbove = isNarrow() && longest > 14;
    const traces = series.map((one) => ({ ...describeIntervals(one), showlegend: series.length > 1 }));
    const values = series.flatMap((one) => one.points.flatMap((point) => [point.value, point.low ?? point.value, point.high ?? point.value]));
    const width = figure.clientWidth - (isAbove ? 0 : 7 * longest) - 26;
    const heading = breakTitle(title, width);
    const xaxis = bench.describeFactors(values, heading, width);
    const isTall = lines.length > 20; // both ends of its axis are not on the screen at once
    const room = heading.includes("<br>") ? 62 : 48;
    bench.draw(
      figure,
      traces,
      {
        height: Math.max(150, (isAbove ? 44 : 26) * lines.length + 90),
        xaxis: { ...xaxis, side: isTall ? "top" : "bottom" },
        yaxis: { type: "category", categoryorder: "array", categoryarray: [...lines].reverse(), range: [-0.6, lines.length - 0.4], showticklabels: !isAbove },
        shapes: describeSides(xaxis.range),
        annotations: isAbove ? lines.map((line) => ({ text: line, xref: "paper", x: 0, xanchor: "left", y: line, yanchor: "bottom", yshift: 8, showarrow: false, bgcolor: read("--page"), borderpad: 1 })) : [],
        legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
        margin: { l: 10, r: 16, t: isTall ? room : series.length > 1 ? 34 : 8, b: isTall ? 8 : room },
      },
      bench.listTexts(series.flatMap((one) => one.points.map((point) => `${point.name}: ${point.text}`))),
    );
  };

  /** Stacked horizontal bars; `parts` are {name, values}, one value a line. */
  bench.drawBars = function (figure, lines, parts, title, further) {
    const shades = [0, 4, 1, 7].map((number) => colours()[number]);
    const names = lines.map(bench.escape);
    const patterns = ["", "/", "x", "."];
    const isGrouped = further !== undefined && further.barmode === "group"; // plotly draws a group from its lower end
    const bars = parts.map((part, number) => ({
      type: "bar",
      orientation: "h",
      name: part.name,
      y: names,
      x: part.values,
      text: part.texts,
      textposition: "none",
      hovertemplate: "%{y}: " + part.name + " %{text}<extra></extra>",
      marker: { color: shades[number % shades.length], pattern: { shape: patterns[number % patterns.length], size: 6, solidity: 0.3, fillmode: "overlay", fgcolor: "#ffffff" } },
    }));
    bench.draw(figure, isGrouped ? bars.reverse() : bars, {
      barmode: "stack",
      height: Math.max(150, 30 * lines.length + 110),
      xaxis: { title: { text: title, standoff: 8 }, rangemode: "tozero" },
      yaxis: { type: "category", categoryorder: "array", categoryarray: [...names].reverse() },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: isGrouped ? "reversed" : "normal" },
      margin: { l: 10, r: 16, t: 34, b: 48 },
      ...further,
    }, bench.listTexts(lines.map((line, row) => `${line}: ${parts.map((part) => `${part.name} ${part.texts[row]}`).join(", ")}`)));
  };
})();
