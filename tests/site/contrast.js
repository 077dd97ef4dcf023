// Texts whose contrast is below 4.5, and marks of charts below 3: level AA of WCAG 2.
() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const read = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map((one) => one / 255).map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)); return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const ground = (one) => { for (let at = one; at; at = at.parentElement) { const found = read(getComputedStyle(at).backgroundColor); if (found[3] === 255) return found; } return [255, 255, 255]; };
  const wrong = new Map();
  for (const one of document.querySelectorAll('body *')) {
    if (one.closest('svg, script') || !one.checkVisibility() || ![...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()) || one.disabled) continue;
    const style = getComputedStyle(one);
    const found = ratio(read(style.color), ground(one));
    if (found < 4.5) wrong.set(`${one.tagName}.${one.className} ${style.color}`, found.toFixed(2));
  }
  const page = read(getComputedStyle(document.body).backgroundColor);
  for (const label of ['engine', 'eager', 'onnxruntime', 'openvino', 'torch_compile', 'llama_cpp', 'torchao', 'onnxruntime_dynamic']) {
    const found = ratio(read(bench.getColour(label)), page);
    if (found < 3) wrong.set(`mark of ${label}`, found.toFixed(2));
  }
  return [...wrong].map((one) => one.join(': '));
}
