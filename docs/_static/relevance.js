// Rank the results of the site's search by relevance, one for each page. Sphinx itself gives the same score to all pages
// whose text has the words of the query, and finds headings and keywords only if they contain the whole query.
//
// Each word of the query counts where it weighs most: as a keyword of the page (`_WORDS` in conf.py), in its title, in a
// heading, or in the text. Rare words count more than frequent ones. Where all words stand together counts twice.
"use strict";
{
  const KEYWORD = 6, OBJECT = 5, TITLE = 4, HEADING = 2, TEXT = 1;
  // Pages that mention everything, and rarely are what a reader looks for.
  const LESS = [[/^changelog$|^messages$|^migrate\/rules$/, 0.4], [/^_notebooks\/|^api\/|^differences$/, 0.75]];
  const stemmer = new Stemmer();

  const wordsOf = (text) => {
    const all = splitQuery(text.toLowerCase());
    const kept = all.filter((word) => !stopwords.has(word));
    return [...new Set((kept.length ? kept : all).map((word) => stemmer.stemWord(word)))];
  };
  const isAlike = (word, other) => {
    const [short, long] = word.length < other.length ? [word, other] : [other, word];
    return short === long || (short.length > 3 && short.length / long.length > 0.6 && long.startsWith(short));
  };

  // What describes each page, as lists of words with their weight and place.
  const describe = (index) => {
    const texts = index.docnames.map((_, page) => [{ words: wordsOf(index.titles[page]), weight: TITLE, place: "" }]);
    for (const [entry, places] of Object.entries(index.indexentries))
      for (const [page, , isMain] of places)
        if (isMain) texts[page].push({ words: wordsOf(entry), weight: KEYWORD, place: "" });
    for (const [title, places] of Object.entries(index.alltitles))
      for (const [page, id] of places)
        if (id !== null) texts[page].push({ words: wordsOf(title), weight: HEADING, place: "#" + id });
    return texts;
  };

  // The pages whose text has a word, or words that begin with it.
  const pagesWith = (index, word) => {
    const found = Object.hasOwn(index.terms, word) ? [word] : Object.keys(index.terms).filter((term) => isAlike(word, term));
    return new Set(found.flatMap((term) => index.terms[term]));
  };

  let texts = null;
  Search._performSearch = (query, _required, excluded, _highlight, objectTerms) => {
    const index = Search._index, count = index.docnames.length, results = [];
    texts ??= describe(index);
    const words = wordsOf(query.replace(/-\S+/g, "")), left = [...excluded].map((word) => pagesWith(index, word));
    const holders = words.map((word) => pagesWith(index, word));
    const rarity = holders.map((pages) => Math.log(1 + count / (1 + pages.size)));
    const total = rarity.reduce((sum, each) => sum + each, 0);

    texts.forEach((own, page) => {
      if (left.some((pages) => pages.has(page))) return;
      const best = words.map((_, i) => (holders[i].has(page) ? TEXT : 0));
      let together = 0, place = "";
      for (const text of own) {
        const matched = words.map((word) => text.words.some((other) => isAlike(word, other)));
        const hits = matched.filter(Boolean).length;
        // A keyword of several words is one thing: some of its words alone say little.
        const weight = text.weight === KEYWORD ? KEYWORD * Math.min(1, hits / text.words.length) ** 2 : text.weight;
        matched.forEach((is, i) => (best[i] = is ? Math.max(best[i], weight) : best[i]));
        if (hits === words.length && weight > together) [together, place] = [weight, text.place];
      }
      const score = total * together + best.reduce((sum, each, i) => sum + each * rarity[i], 0);
      const factor = LESS.find(([pattern]) => pattern.test(index.docnames[page]))?.[1] ?? 1;
      if (score > 0) results.push([index.docnames[page], index.titles[page], place, null, score * factor,
        index.filenames[page], SearchResultKind.title]);
    });
    for (const term of objectTerms)
      for (const found of Search.performObjectSearch(term, objectTerms)) {
        const isNamed = found[1].toLowerCase().split(".").pop() === term;
        results.push([...found.slice(0, 4), total * (isNamed ? OBJECT : TEXT), ...found.slice(5)]);
      }
    const pages = new Set();
    const best = results.sort((one, other) => other[4] - one[4]).filter(([page]) => !pages.has(page) && pages.add(page));
    return best.reverse();  // Sphinx shows the last one first
  };
}
