import Broker
import HTTPTypes

/// Makes the `X-Auth-*` fields of the answer to forward-auth (SEC-86).
///
/// All fields are always present, so that the proxy overwrites fields of these names that the client sent. An unknown value is
/// empty.
enum IdentityFields {
    /// The largest number of bytes of a field's value.
    static let maximumBytes = 256

    /// Appends the `X-Auth-*` fields.
    ///
    /// Throws `backend_not_allowed` for a subject that is too long, because a truncated subject could name another user.
    static func append(_ session: LiveSession, to fields: inout [HTTPField]) throws(BrokerProblem) {
        let facts = session.facts
        let subject = encode(facts.subject)
        guard subject.utf8.count <= maximumBytes else {
            throw BrokerProblem(.backendNotAllowed, privateDetail: "the subject is too long for a header field")
        }
        fields.append(HTTPField(name: .authSubject, value: subject))
        fields.append(HTTPField(name: .authProvider, value: facts.provider.text))
        fields.append(HTTPField(name: .authClient, value: facts.client.text))
        fields.append(HTTPField(name: .authSession, value: session.row.handle.text))
        fields.append(HTTPField(name: .authName, value: bounded(claim("name", in: facts.identity)?.string ?? "")))
        fields.append(HTTPField(name: .authEmail, value: email(in: facts.identity)))
        fields.append(HTTPField(name: .authScope, value: bounded(facts.scope.joined(separator: " "))))
        append(facts.signIn, to: &fields)
        guard let child = facts.child else { return fields += nobodysChild }
        fields.append(HTTPField(name: .authKind, value: child.kind.text))
        fields.append(HTTPField(name: .authParent, value: child.parentHandle.text))
    }

    private static func append(_ signIn: SignInFacts, to fields: inout [HTTPField]) {
        guard signIn.contextClass != nil || signIn.authenticatedAt != nil else { return fields += unknownSignIn }
        fields.append(HTTPField(name: .authClass, value: bounded(signIn.contextClass ?? "")))
        fields.append(HTTPField(name: .authTime, value: signIn.authenticatedAt.map { String($0) } ?? ""))
    }

    private static let unknownSignIn = [
        HTTPField(name: .authClass, value: ""), HTTPField(name: .authTime, value: ""),
    ]

    private static let nobodysChild = [
        HTTPField(name: .authKind, value: ""), HTTPField(name: .authParent, value: ""),
    ]

    private static func claim(_ name: String, in identity: [(name: String, value: JSONValue)]) -> JSONValue? {
        identity.first { $0.name == name }?.value
    }

    /// Returns the email address; empty if `email_verified` is present but false, or if the address is too long (SEC-33).
    private static func email(in identity: [(name: String, value: JSONValue)]) -> String {
        guard claim("email_verified", in: identity).map(EmailVerdict.isVerified) ?? true else { return "" }
        let text = encode(claim("email", in: identity)?.string ?? "")
        return text.utf8.count <= maximumBytes ? text : ""
    }

    /// Encodes a text, or returns an empty text if the result is too long.
    ///
    /// A truncated list or name would have another meaning.
    private static func bounded(_ text: String) -> String {
        let encoded = encode(text)
        return encoded.utf8.count <= maximumBytes ? encoded : ""
    }

    private static let hexadecimalDigits = Array("0123456789ABCDEF".utf8)

    /// Percent-encodes all bytes outside 0x21–0x7E and the percent sign itself, so that two different subjects never have the
    /// same encoding.
    static func encode(_ text: String) -> String {
        var text = text
        let isPlain = text.withUTF8 { bytes in bytes.allSatisfy { $0 &- 0x21 < 0x5E && $0 != UInt8(ascii: "%") } }
        guard !isPlain else { return text }
        let digits = hexadecimalDigits
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count * 3)
        for byte in text.utf8 {
            if (0x21...0x7E).contains(byte), byte != UInt8(ascii: "%") {
                bytes.append(byte)
            } else {
                bytes.append(UInt8(ascii: "%"))
                bytes.append(digits[Int(byte >> 4)])
                bytes.append(digits[Int(byte & 15)])
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
