// The theme's index has Japanese text in words, but takes what is asked for one word. Here a query is
// cut by the same segmenter, which the theme brings (tinyseg.js, loaded after this), before it is asked.
globalThis.lunr ??= {}
const QUERY = 2 // the theme's number of the message that asks
const JAPANESE = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}ー]+/gu

function inWords(query) {
  const segmenter = new lunr.TinySegmenter()
  return query.replace(JAPANESE, (text) => {
    const words = segmenter.segment(text)
    const longer = words.filter((word) => !/^[ぁ-ん]$/.test(word)) // particles are in every text
    return ` ${(longer.length ? longer : words).join(" ")} `
  }).trim()
}

globalThis.Worker = class extends globalThis.Worker {
  postMessage(message) {
    super.postMessage(message.type === QUERY ? { ...message, data: inWords(message.data) } : message)
  }
}
