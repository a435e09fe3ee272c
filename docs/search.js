// People paste whole lines of errors: to the search these are words. Its query language fails on a colon at the end of one.
const postMessage = Worker.prototype.postMessage
Worker.prototype.postMessage = function (message, ...rest) {
  const query = typeof message?.data === "string"
  const words = query ? message.data.replace(/[^\p{L}\p{N}.]+/gu, " ") : undefined
  return postMessage.call(this, query ? { ...message, data: words } : message, ...rest)
}
