// Asks the search of the built site: its own worker, as the browser runs it. Arguments: the folder of the site, and queries.
import fs from "node:fs"
import vm from "node:vm"

const [site, ...queries] = process.argv.slice(2)
const folder = `${site}/assets/javascripts/workers`
const worker = fs.readdirSync(folder).find(name => /^search\..*\.js$/.test(name))
let receive, answered
class Worker {
  postMessage(message) { receive({ data: message }) }
}
const scope = {
  Worker,
  addEventListener: (_, listener) => { receive = listener },
  postMessage: message => answered(message),
  console: { warn: text => { throw new Error(text) } },
}
scope.self = scope
vm.runInNewContext(fs.readFileSync(`${folder}/${worker}`, "utf-8"), scope)
// The page changes what it sends to its worker.
vm.runInNewContext(`{${fs.readFileSync(`${site}/search.js`, "utf-8")}}`, { Worker })
const ask = message => new Promise(resolve => { answered = resolve; new Worker().postMessage(message) })

const index = JSON.parse(fs.readFileSync(`${site}/search/search_index.json`, "utf-8"))
await ask({ type: 0, data: { ...index, options: { suggest: false } } })
const found = []
for (const query of queries) {
  const { data } = await ask({ type: 2, data: query })
  found.push(data.items.map(page => page.map(item => item.location)))
}
console.log(JSON.stringify(found))
