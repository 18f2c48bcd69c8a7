import FoundationEssentials

/// Encodes standard base64 (RFC 4648 section 4), for HTTP Basic.
enum Base64 {
    static func encode(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }
}
