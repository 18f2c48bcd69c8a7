/// The text of a statement, split at its named parameters, such as `:token`.
///
/// A colon in quotes, and the two colons of a cast (`::bigint`), begin no parameter.
struct StatementText {
    enum Piece: Equatable {
        case sql(String)
        case parameter(String)
    }

    let pieces: [Piece]

    init(_ text: String) {
        var pieces: [Piece] = []
        let bytes = Array(text.utf8)
        var begin = 0
        var place = 0
        while place < bytes.count {
            let next = place + 1
            switch bytes[place] {
            case UInt8(ascii: "'"): place = (bytes[next...].firstIndex(of: UInt8(ascii: "'")) ?? bytes.count - 1) + 1
            case UInt8(ascii: ":"):
                let end = bytes[next...].firstIndex { !Self.isPartOfName($0) } ?? bytes.count
                if end > next {
                    pieces.append(.sql(String(decoding: bytes[begin..<place], as: UTF8.self)))
                    pieces.append(.parameter(String(decoding: bytes[next..<end], as: UTF8.self)))
                    begin = end
                    place = end
                } else {
                    // The second colon of a cast begins no parameter either.
                    place = bytes[next...].first == UInt8(ascii: ":") ? next + 1 : next
                }
            default: place = next
            }
        }
        self.pieces = pieces + [.sql(String(decoding: bytes[begin...], as: UTF8.self))]
    }

    /// The names of the parameters, each once, in the order of their first places.
    var names: [String] {
        pieces.reduce(into: []) { names, piece in
            if case .parameter(let name) = piece, !names.contains(name) { names.append(name) }
        }
    }

    private static func isPartOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
