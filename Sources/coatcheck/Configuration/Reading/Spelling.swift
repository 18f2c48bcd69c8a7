/// Finds the intended word for a misspelt one.
enum Spelling {
    /// Returns the nearest of the words; nil if all are too different.
    static func nearest(to word: String, among words: some Sequence<String>) -> String? {
        words.compactMap { other in distance(word, other).map { (distance: $0, word: other) } }
            .min { ($0.distance, $0.word) < ($1.distance, $1.word) }?.word
    }

    /// Returns the end of a sentence that suggests a word; empty without a word.
    static func hint(_ word: String?) -> String { word.map { "; did you mean `\($0)`?" } ?? "" }

    /// Returns the end of a sentence that suggests the nearest word; empty if all are too different.
    static func hint(for word: String, among words: some Sequence<String>) -> String {
        hint(nearest(to: word, among: words))
    }

    private static func distance(_ left: String, _ right: String) -> Int? {
        let (a, b) = (Array(left.lowercased().utf8.prefix(40)), Array(right.lowercased().utf8.prefix(40)))
        guard abs(a.count - b.count) <= 2 else { return nil }
        var row = Array(0...b.count)
        for (i, x) in a.enumerated() {
            var next = [i + 1]
            for (j, y) in b.enumerated() { next.append(min(row[j + 1] + 1, next[j] + 1, row[j] + (x == y ? 0 : 1))) }
            row = next
        }
        guard let edits = row.last, edits <= min(2, min(a.count, b.count) / 2) else { return nil }
        return edits
    }
}
