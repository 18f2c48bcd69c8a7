/// Finds the key that a misspelt one was meant to be.
enum Spelling {
    /// Returns whether two words differ by at most two edits, and by fewer than half of the shorter one.
    static func isNear(_ left: String, _ right: String) -> Bool {
        let (a, b) = (Array(left.utf8.prefix(40)), Array(right.utf8.prefix(40)))
        guard abs(a.count - b.count) <= 2 else { return false }
        var row = Array(0...b.count)
        for (i, x) in a.enumerated() {
            var next = [i + 1]
            for (j, y) in b.enumerated() { next.append(min(row[j + 1] + 1, next[j] + 1, row[j] + (x == y ? 0 : 1))) }
            row = next
        }
        return (row.last ?? .max) <= min(2, min(a.count, b.count) / 2)
    }
}
