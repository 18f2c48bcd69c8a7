import Broker
import BrokerVault
import Testing

/// Keys of consecutive bytes: 0…31, 32…63 (the index key) and 64…95.
enum Fixture {
    static let zeroTo31 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    static let indexKey = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8"
    static let otherKey = "QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8"
    static let created = "2026-11-20T21:00:00Z"

    static func file(_ keys: (id: String, key: String)..., index: String = indexKey) -> [UInt8] {
        let items = keys.map { #"{"id":"\#($0.id)","key":"\#($0.key)","created":"\#(created)"}"# }
        return Array(
            #"{"version":1,"index":{"key":"\#(index)"},"keys":[\#(items.joined(separator: ","))]}"#.utf8)
    }

    static func vault() throws -> OpenSSLVault {
        try OpenSSLVault(ring: .parse(file((id: "k1", key: zeroTo31))))
    }

    static func digest(_ byte: UInt8) throws -> Digest { try #require(Digest([UInt8](repeating: byte, count: 32))) }
}

extension Sealed {
    /// The same envelope with one change.
    func altered(_ change: (inout [UInt8]) -> Void) -> Sealed {
        var envelope = envelope
        change(&envelope)
        return Sealed(keyID: keyID, envelope: envelope)
    }
}
