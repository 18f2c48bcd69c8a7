import Broker

/// Reads the session cookie of an old system from the raw `Cookie` fields.
///
/// The value is taken byte for byte, with its quotes and escapes, because only the old system knows its form. Some systems split
/// a long value into pieces, such as `_oauth2_proxy_0` and `_oauth2_proxy_1`, or `authjs.session-token.0`.
enum LegacyCookie {
    /// The fault of a cookie, such as a second cookie of the same name.
    struct Fault: Error, Equatable {
        let code: FieldFault.Code
    }

    /// The largest number of bytes of the value, or of all pieces together.
    static let maximumBytes = 16_384
    private static let separators = ["_", "."]

    /// Returns the value; nil if the cookie is absent or empty.
    static func read(_ name: String, in fields: [String]) -> Result<String?, Fault> {
        let wanted = Set([name] + separators.flatMap { separator in (0...9).map { "\(name)\(separator)\($0)" } })
        var found: [String: String] = [:]
        for field in fields {
            for part in field.split(separator: ";") {
                let pair = trimmed(part)
                guard let equals = pair.firstIndex(of: "=") else { continue }
                let key = String(pair[..<equals])
                guard wanted.contains(key) else { continue }
                // A sibling subdomain may have planted one of two cookies.
                guard found[key] == nil else { return .failure(Fault(code: .duplicate)) }
                found[key] = String(pair[pair.index(after: equals)...])
            }
        }
        guard let value = found[name] ?? pieces(of: name, found), !value.isEmpty else { return .success(nil) }
        guard value.utf8.count <= maximumBytes else { return .failure(Fault(code: .tooLong)) }
        guard value.unicodeScalars.allSatisfy(RequestText.isASCIIText) else { return .failure(Fault(code: .malformed)) }
        return .success(value)
    }

    /// Joins the pieces from number 0 up to the first gap.
    private static func pieces(of name: String, _ found: [String: String]) -> String? {
        for separator in separators {
            let values = (0...9).map { found["\(name)\(separator)\($0)"] }.prefix { $0 != nil }.compactMap(\.self)
            if !values.isEmpty { return values.joined() }
        }
        return nil
    }

    private static func trimmed(_ part: Substring) -> Substring {
        var part = part
        while part.first == " " || part.first == "\t" { part.removeFirst() }
        while part.last == " " || part.last == "\t" { part.removeLast() }
        return part
    }
}
