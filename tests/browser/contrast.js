// The contrast of every text that is seen with what is behind it, as WCAG 2 computes it; those that are too weak.
() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].map((part) => part / 255);
  };
  const over = (front, back) => [0, 1, 2].map((at) => front[at] * front[3] + back[at] * (1 - front[3]));
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (one) => {
    const layers = [];
    for (let at = one; at !== null; at = at.parentElement) layers.push(read(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [1, 1, 1]);
  };
  const weak = [];
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (walker.currentNode.data.trim() === "" || one.closest("title, script, noscript") !== null) continue;
    if (!one.checkVisibility({ visibilityProperty: true }) || one.closest(".skip, .quiet-title") !== null) continue;
    const style = getComputedStyle(one);
    const back = behind(one);
    const colour = read(one instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(over(colour, back)), light(back)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    seen += 1;
    if (ratio < 4.5)
      weak.push(
        `${walker.currentNode.data.trim().slice(0, 40)} (${one.className || one.tagName}): ${ratio.toFixed(2)}`,
      );
  }
  return [seen, weak];
};
