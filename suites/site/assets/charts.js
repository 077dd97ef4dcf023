// Charts, drawn by plotly.js in the colours of the page. Each function takes a figure element and plain points.
"use strict";
(function () {
  // Okabe and Ito, "Color universal design" (2008): distinguishable without red-green vision. Each backend also has a shape.
  const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7f00", "#7a7f85"];
  const SHAPES = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon"];
  const KNOWN = ["engine", "eager", "onnxruntime", "openvino", "torch_compile", "llama_cpp", "torchao", "onnxruntime_dynamic"];
  const others = [];

  function place(label) {
    const name = label.replace(/[[@#].*/, "");
    const known = KNOWN.indexOf(name);
    if (known >= 0) return known;
    if (!others.includes(name)) others.push(name);
    return (KNOWN.length - 1 + others.indexOf(name)) % COLOURS.length;
  }

  /** Colour and shape of the series of that number; an outline keeps marks apart that overlap. */
  bench.getMark = (number) => ({ color: COLOURS[number % COLOURS.length], symbol: SHAPES[number % SHAPES.length], opacity: 1, line: { width: 1, color: read("--page") } });
  bench.getColour = (label) => COLOURS[place(label)];
  bench.getShape = (label) => SHAPES[place(label)];
  const read = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  bench.getWordColour = (word) => read({ ahead: "--ahead", behind: "--behind" }[word] || "--unclear");

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
      xaxis: { ...axis, ...(further.xaxis || {}) },
      yaxis: { ...axis, ...(further.yaxis || {}) },
    };
  }

  bench.draw = function (figure, traces, layout) {
    const plot = figure.querySelector(".plot");
    Plotly.react(plot, traces, makeLayout(layout), { displayModeBar: false, responsive: true });
  };

  bench.hide = function (figure, isHidden) {
    figure.hidden = isHidden;
    return isHidden;
  };

  /** Range of a logarithmic axis that shows these values, and at least a factor of three. */
  bench.getLogRange = (values) => [Math.log10(Math.min(...values) / 1.75), Math.log10(Math.max(...values) * 1.75)];

  /** Ticks of an axis of factors: 0.5x, 1x, 2x, as many as fit between the smallest and the largest value. */
  bench.describeFactors = function (values, title) {
    const low = Math.min(1, ...values);
    const high = Math.max(1, ...values);
    const steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 7, 10, 20, 50, 100, 200, 500, 1000];
    const wide = high / low > 12;
    const few = new Set([0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]);
    const ticks = steps.filter((one) => one >= low / 1.2 && one <= high * 1.2 && (!wide || few.has(one)));
    return {
      type: "log",
      title: { text: title, standoff: 8 },
      tickvals: ticks,
      ticktext: ticks.map((one) => `${one}x`),
      range: [Math.log10(low / 1.08), Math.log10(high * 1.08)],
    };
  };

  /** Points with intervals, one a line; `lines` are {name, value, low, high, colour, symbol, text}, topmost first. */
  bench.drawIntervals = function (figure, series, title) {
    const lines = bench.unique(series.flatMap((one) => one.points.map((point) => point.name)));
    const traces = series.map((one) => ({
      type: "scatter",
      mode: "markers",
      name: one.name,
      showlegend: series.length > 1,
      y: one.points.map((point) => point.name),
      x: one.points.map((point) => point.value),
      error_x: {
        type: "data",
        symmetric: false,
        array: one.points.map((point) => (point.high ?? point.value) - point.value),
        arrayminus: one.points.map((point) => point.value - (point.low ?? point.value)),
        thickness: 1.5,
        width: 3,
        color: one.points.length === 1 ? one.points[0].colour : read("--soft"),
      },
      marker: {
        size: 10,
        symbol: one.points.map((point) => point.symbol || "circle"),
        color: one.points.map((point) => point.colour),
        line: { width: 1.5, color: one.points.map((point) => point.colour) },
      },
      text: one.points.map((point) => point.text),
      hovertemplate: "%{y}<br>%{text}<extra></extra>",
    }));
    const values = series.flatMap((one) => one.points.flatMap((point) => [point.value, point.low ?? point.value, point.high ?? point.value]));
    bench.draw(figure, traces, {
      height: Math.max(150, 26 * lines.length + 90),
      xaxis: bench.describeFactors(values, title),
      yaxis: { type: "category", categoryorder: "array", categoryarray: [...lines].reverse(), range: [-0.6, lines.length - 0.4] },
      shapes: [{ type: "line", x0: 1, x1: 1, y0: 0, y1: 1, yref: "paper", line: { color: read("--text"), width: 1, dash: "dot" } }],
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      margin: { l: 10, r: 16, t: series.length > 1 ? 34 : 8, b: 48 },
    });
  };

  /** Stacked horizontal bars; `parts` are {name, values}, one value a line. */
  bench.drawBars = function (figure, lines, parts, title, further) {
    const shades = ["#0072b2", "#56b4e9", "#e69f00", "#7a7f85"];
    const patterns = ["", "/", "x", "."];
    const traces = parts.map((part, number) => ({
      type: "bar",
      orientation: "h",
      name: part.name,
      y: lines,
      x: part.values,
      text: part.texts,
      textposition: "none",
      hovertemplate: "%{y}: " + part.name + " %{text}<extra></extra>",
      marker: { color: shades[number % shades.length], pattern: { shape: patterns[number % patterns.length], size: 6, solidity: 0.3, fillmode: "overlay", fgcolor: "#ffffff" } },
    }));
    bench.draw(figure, traces, {
      barmode: "stack",
      height: Math.max(150, 30 * lines.length + 110),
      xaxis: { title: { text: title, standoff: 8 }, rangemode: "tozero" },
      yaxis: { type: "category", categoryorder: "array", categoryarray: [...lines].reverse() },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal" },
      margin: { l: 10, r: 16, t: 34, b: 48 },
      ...further,
    });
  };
})();
