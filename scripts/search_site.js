// Runs searches on a built site, with the code that a browser would run on the site's index.
//
//   node scripts/search_site.js docs/_build/html <<< '["shuffle", "cache dir"]'
//
// Writes, for each query, the pages of the first three results.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const site = process.argv[2];
const nothing = { addEventListener() {}, documentElement: { dataset: {} }, getElementById: () => null };
const context = vm.createContext({
  document: nothing,
  window: {},
  DOCUMENTATION_OPTIONS: {},
  SPHINX_HIGHLIGHT_ENABLED: false,
  localStorage: { setItem() {}, getItem: () => null },
  _: (text) => text,
  _ready() {},
});
const load = (file) => vm.runInContext(fs.readFileSync(path.join(site, file), "utf8"), context, file);
load("_static/language_data.js");
vm.runInContext("if (window.Stemmer) var Stemmer = window.Stemmer;", context);
load("_static/searchtools.js");
vm.runInContext("this.Search = Search;", context);
load("searchindex.js");
load("_static/relevance.js");

const queries = JSON.parse(fs.readFileSync(0, "utf8"));
const found = {};
for (const query of queries) {
  const results = context.Search._performSearch(...context.Search._parseQuery(query));
  found[query] = results.slice(-3).reverse().map((result) => result[0]);  // the best ones are last
}
process.stdout.write(JSON.stringify(found));
