import Broker
import BrokerWire

/// Reads cookies from the raw `Cookie` fields, strictly (SEC-38, library note 4).
enum CookieReader {
    enum Result: Equatable {
        case absent
        case one(String)
        /// Two different values for one name; an attacker may have planted one of the two.
        case several
        /// A value with a quotation mark at only one end.
        case halfQuoted
    }

    /// Returns the cookie of exactly this name.
    ///
    /// Names are compared byte by byte. Only SP and HTAB are trimmed. `$Version`, `$Path` and pairs that lack a name are
    /// ignored.
    ///
    /// One pair of quotes around the whole value is removed, because Java's cookie jars add it (decision 86). The pairs are
    /// split at `;` first, and escapes are kept.
    static func value(of name: String, in fields: [String]) -> Result {
        let prefix = Array(name.utf8) + [UInt8(ascii: "=")]
        var found: String?
        var isHalfQuoted = false
        for field in fields {
            // Read bytes by index, which costs no allocation for a pair. A stranger chooses the length of a field and its
            // number of pairs.
            var field = field
            let isPlanted = field.withUTF8 { bytes in
                var start = 0
                while start < bytes.count {
                    let pair = trimmed(bytes, start)
                    start = pair.next
                    guard pair.end - pair.start >= prefix.count, begins(bytes, at: pair.start, with: prefix) else {
                        continue
                    }
                    guard found == nil else { return true }
                    // Only the ends of the pair are trimmed, so spaces after the `=` belong to the value.
                    var value = (pair.start + prefix.count)..<pair.end
                    let quotes = value.isEmpty ? 0 : quotes(bytes, value)
                    if quotes == 2 { value = (value.lowerBound + 1)..<(value.upperBound - 1) }
                    if quotes == 1 { isHalfQuoted = true }
                    found = String(decoding: bytes[value], as: UTF8.self)
                }
                return false
            }
            guard !isPlanted else { return .several }
        }
        return isHalfQuoted ? .halfQuoted : found.map { .one($0) } ?? .absent
    }

    /// Returns the trimmed bounds of the pair that begins at `start`, and the start of the next pair.
    private static func trimmed(_ bytes: UnsafeBufferPointer<UInt8>, _ start: Int) -> (start: Int, end: Int, next: Int)
    {
        var stop = start
        while stop < bytes.count, bytes[stop] != UInt8(ascii: ";") { stop += 1 }
        var first = start
        var end = stop
        while first < end, bytes[first] == 0x20 || bytes[first] == 0x09 { first += 1 }
        while first < end, bytes[end - 1] == 0x20 || bytes[end - 1] == 0x09 { end -= 1 }
        return (first, end, stop + 1)
    }

    /// Returns the number of quotation marks at the ends of a value; a value that is a single mark counts as one.
    private static func quotes(_ bytes: UnsafeBufferPointer<UInt8>, _ value: Range<Int>) -> Int {
        let quote = UInt8(ascii: "\"")
        let opens = bytes[value.lowerBound] == quote
        let closes = value.count > 1 && bytes[value.upperBound - 1] == quote
        return (opens ? 1 : 0) + (closes ? 1 : 0)
    }

    private static func begins(_ bytes: UnsafeBufferPointer<UInt8>, at start: Int, with prefix: [UInt8]) -> Bool {
        for index in prefix.indices where bytes[start + index] != prefix[index] { return false }
        return true
    }
}

/// The credentials of an `Authorization` field.
///
/// The mere presence of the field proves nothing (SEC-43).
enum Authorization: Sendable {
    case bearer(Secret)
    /// The scheme Basic, with a name and a secret.
    case basic(name: String, secret: Secret)
    /// An unsupported scheme, or malformed credentials.
    case other

    /// Parses a field's value (RFC 9110 section 11.4).
    init(_ value: String) {
        guard let space = value.firstIndex(of: " ") else {
            self = .other
            return
        }
        let credential = value[space...].drop { $0 == " " }
        // Read `DPoP` like `Bearer`, because only a proof in its own field is evidence, and the scheme is not (RFC 9449 section
        // 7.1).
        let scheme = value[..<space]
        if scheme.isASCIIEqual(to: "bearer") || scheme.isASCIIEqual(to: "dpop"), !credential.isEmpty,
            credential.utf8.count <= 512,
            credential.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        {
            self = .bearer(Secret(String(credential)))
        } else if scheme.isASCIIEqual(to: "basic"), let pair = Self.basic(credential) {
            self = pair
        } else {
            self = .other
        }
    }

    private static func basic(_ credential: Substring) -> Authorization? {
        guard credential.utf8.count <= 1024, let bytes = base64(credential),
            let text = String(validating: bytes, as: UTF8.self), let colon = text.firstIndex(of: ":"),
            // Client id and secret are form-encoded before they are joined (RFC 6749 section 2.3.1).
            let name = FormPairs.decode(text[..<colon].utf8),
            let secret = FormPairs.decode(text[text.index(after: colon)...].utf8)
        else { return nil }
        return .basic(name: name, secret: Secret(secret))
    }

    /// Decodes RFC 4648 base64.
    ///
    /// The alphabet differs from base64url's in two characters, and the padding is required.
    private static func base64(_ text: Substring) -> [UInt8]? {
        let stripped =
            text.utf8.last == UInt8(ascii: "=")
            ? text.dropLast(text.hasSuffix("==") ? 2 : 1) : text
        guard text.utf8.count % 4 == 0, !stripped.contains("-"), !stripped.contains("_") else { return nil }
        return Base64URL.decode(
            String(stripped.map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 }))
    }
}
