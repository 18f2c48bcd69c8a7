import Broker

/// A value of a statement, in PostgreSQL's binary form; nil bytes are NULL.
struct Parameter: Sendable, Equatable {
    let type: ParameterType
    let bytes: [UInt8]?

    static func bytes(_ bytes: [UInt8]?) -> Parameter { Parameter(type: .bytes, bytes: bytes) }
    static func digest(_ digest: Digest?) -> Parameter { bytes(digest?.bytes) }
    static func text(_ text: String?) -> Parameter { Parameter(type: .text, bytes: text.map { Array($0.utf8) }) }
    static func truth(_ truth: Bool) -> Parameter { Parameter(type: .truth, bytes: [truth ? 1 : 0]) }
    static func integer(_ value: Int64?) -> Parameter {
        Parameter(type: .integer, bytes: value.map { bigEndian(UInt64(bitPattern: $0), 8) })
    }
    static func integer(_ value: Int?) -> Parameter { integer(value.map { Int64($0) }) }
    static func time(_ time: WallTime?) -> Parameter { integer(time?.milliseconds) }
    static func duration(_ duration: Duration?) -> Parameter { integer(duration?.wholeMilliseconds) }

    static func digests(_ digests: [Digest]) -> Parameter { list(.bytesList, of: digests.map { .digest($0) }) }
    static func bytesList(_ bytes: [[UInt8]]) -> Parameter { list(.bytesList, of: bytes.map { .bytes($0) }) }
    static func texts(_ texts: [String]) -> Parameter { list(.textList, of: texts.map { .text($0) }) }
    static func integers(_ values: [Int]) -> Parameter { list(.integerList, of: values.map { .integer($0) }) }
    static func times(_ times: [WallTime]) -> Parameter { list(.integerList, of: times.map { .time($0) }) }

    private static func list(_ type: ParameterType, of elements: [Parameter]) -> Parameter {
        var bytes: [UInt8] = []
        bytes += bigEndian(elements.isEmpty ? 0 : 1, 4)
        bytes += bigEndian(elements.contains { $0.bytes == nil } ? 1 : 0, 4)
        bytes += bigEndian(UInt64(type.element.oid), 4)
        guard !elements.isEmpty else { return Parameter(type: type, bytes: bytes) }
        bytes += bigEndian(UInt64(elements.count), 4)
        bytes += bigEndian(1, 4)
        for element in elements {
            if let value = element.bytes {
                bytes += bigEndian(UInt64(value.count), 4)
                bytes += value
            } else {
                bytes += [0xFF, 0xFF, 0xFF, 0xFF]
            }
        }
        return Parameter(type: type, bytes: bytes)
    }

    private static func bigEndian(_ value: UInt64, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: value >> UInt64((count - 1 - $0) * 8)) }
    }
}
