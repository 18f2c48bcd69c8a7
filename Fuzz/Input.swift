/// Takes a fuzzer's bytes apart.
///
/// Texts are decoded in the way in which the broker decodes a client's bytes.
struct Input {
    private var rest: ArraySlice<UInt8>

    init(_ start: UnsafePointer<UInt8>, _ count: Int) {
        rest = Array(UnsafeBufferPointer(start: start, count: count))[...]
    }

    /// Takes one byte; returns 0 if no byte is left.
    mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

    /// Takes the bytes up to a line feed.
    mutating func line() -> String {
        let end = rest.firstIndex(of: 0x0A) ?? rest.endIndex
        defer { rest = end == rest.endIndex ? [] : rest[rest.index(after: end)...] }
        return String(decoding: rest[..<end], as: UTF8.self)
    }

    /// Whether no byte is left.
    var isEmpty: Bool { rest.isEmpty }

    /// Takes all remaining bytes.
    mutating func bytes() -> [UInt8] {
        defer { rest = [] }
        return Array(rest)
    }

    /// Takes all remaining bytes as text.
    mutating func text() -> String { String(decoding: bytes(), as: UTF8.self) }
}
