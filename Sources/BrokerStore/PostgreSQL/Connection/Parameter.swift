import Broker

/// A value of a statement, in PostgreSQL's binary form; nil bytes are NULL.
struct Parameter: Sendable, Equatable {
    let bytes: [UInt8]?

    static let null = Parameter(bytes: nil)

    static func bytes(_ bytes: [UInt8]?) -> Parameter { Parameter(bytes: bytes) }
    static func digest(_ digest: Digest?) -> Parameter { Parameter(bytes: digest?.bytes) }
    static func text(_ text: String?) -> Parameter { Parameter(bytes: text.map { Array($0.utf8) }) }
    static func truth(_ truth: Bool) -> Parameter { Parameter(bytes: [truth ? 1 : 0]) }
    static func integer(_ value: Int64?) -> Parameter {
        Parameter(bytes: value.map { bigEndian(UInt64(bitPattern: $0), 8) })
    }
    static func integer(_ value: Int) -> Parameter { integer(Int64(value)) }
    static func time(_ time: WallTime?) -> Parameter { integer(time?.milliseconds) }
    static func duration(_ duration: Duration?) -> Parameter { integer(duration?.wholeMilliseconds) }

    static func list(of type: ParameterType, _ elements: [Parameter]) -> Parameter {
        var bytes: [UInt8] = []
        bytes += bigEndian(elements.isEmpty ? 0 : 1, 4)
        bytes += bigEndian(elements.contains { $0.bytes == nil } ? 1 : 0, 4)
        bytes += bigEndian(UInt64(type.oid), 4)
        guard !elements.isEmpty else { return Parameter(bytes: bytes) }
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
        return Parameter(bytes: bytes)
    }

    private static func bigEndian(_ value: UInt64, _ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: value >> UInt64((count - 1 - $0) * 8)) }
    }
}
