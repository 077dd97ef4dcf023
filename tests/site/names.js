// What is wrong with the names and headings of a page, in words.
() => {
  const wrong = [];
  const isShown = (one) => one.checkVisibility();
  const name = (one) => (one.getAttribute('aria-label') || '').trim()
    || (one.getAttribute('aria-labelledby') || '').split(' ').map((id) => (document.getElementById(id) || {}).textContent || '').join(' ').trim()
    || [...(one.labels || [])].map((label) => label.textContent).join(' ').trim() || one.textContent.trim();
  const say = (what, one) => wrong.push(`${what}: ${one.outerHTML.slice(0, 120)}`);
  if (!document.documentElement.lang) wrong.push('no language');
  if (!document.title) wrong.push('no title');
  if (document.querySelectorAll('h1').length !== 1) wrong.push('not one h1');
  if (document.querySelectorAll('main').length !== 1) wrong.push('not one main');
  let before = 0;
  for (const one of document.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
    const level = Number(one.tagName[1]);
    if (level > before + 1) say(`heading of level ${level} after ${before}`, one);
    if (!one.textContent.trim()) say('empty heading', one);
    before = level;
  }
  for (const one of document.querySelectorAll('input, select, textarea')) if (!name({ ...{}, getAttribute: (key) => one.getAttribute(key), labels: one.labels, textContent: '' })) say('control without label', one);
  for (const one of document.querySelectorAll('button, a[href], summary, [tabindex="0"]')) if (isShown(one) && !name(one)) say('without a name', one);
  for (const one of document.querySelectorAll('fieldset')) if (!one.querySelector('legend')) say('fieldset without legend', one);
  for (const one of document.querySelectorAll('[role="img"], [role="region"], nav, form')) if (!one.getAttribute('aria-label')) say('without a label', one);
  for (const one of document.querySelectorAll('svg, img, canvas')) if (one.id !== 'js-plotly-tester' && !one.closest('[role="img"], [aria-hidden="true"]') && !one.hasAttribute('alt')) say('picture without a name', one);
  for (const one of document.querySelectorAll('table')) if (isShown(one) && one.rows.length && !one.querySelector('th[scope="col"], thead th')) say('table without headings', one);
  for (const one of document.querySelectorAll('table')) if (isShown(one) && !one.closest('.scroll')) say('table that does not scroll in its box', one);
  for (const one of document.querySelectorAll('[tabindex]')) if (Number(one.getAttribute('tabindex')) > 0) say('positive tabindex', one);
  const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
  for (const id of new Set(ids)) if (ids.filter((one) => one === id).length > 1) wrong.push(`id twice: ${id}`);
  return wrong;
}
