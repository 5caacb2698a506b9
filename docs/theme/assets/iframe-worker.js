// The search runs in a worker, which browsers do not start for a page that is a file. There it runs
// in a hidden frame. The theme would load this from the network; its worker looks for the name.
if (location.protocol === "file:") {
  globalThis.IFrameWorker = globalThis.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      // Written at once: some browsers put another empty page there later.
      this.inside.document.open()
      this.inside.document.write("<!doctype html><body></body>")
      this.inside.document.close()
      // One script after the other, as a worker's importScripts does.
      const load = async (...urls) => {
        for (const one of urls) {
          await new Promise((done, failed) => {
            const script = this.inside.document.createElement("script")
            Object.assign(script, { src: one, onload: done, onerror: failed })
            this.inside.document.body.append(script)
          })
        }
      }
      this.inside.importScripts = load
      // The worker answers by `postMessage(message)`: it is heard here, not by the frame itself.
      this.say = this.inside.postMessage.bind(this.inside)
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = load(url)
    }

    postMessage(data) {
      this.ready.then(() => this.say(data, "*"))
    }
  }
}
