import Broker
import HTTPTypes

/// Makes the `X-Auth-*` fields of forward-auth (SEC-86): all of them always, so that a client's own copies are
/// overwritten; empty when unknown.
enum IdentityFields {
    /// The most bytes that a value may have.
    static let maximumBytes = 256

    /// Appends the fields; throws `backend_not_allowed` for a subject that does not fit, because half a subject could be
    /// somebody else's.
    static func append(_ session: SessionView, to fields: inout [HTTPField]) throws(BrokerProblem) {
        let subject = encode(session.subject)
        guard subject.utf8.count <= maximumBytes else {
            throw BrokerProblem(.backendNotAllowed, privateDetail: "the subject is too long for a header field")
        }
        fields.append(HTTPField(name: .authSubject, value: subject))
        fields.append(HTTPField(name: .authProvider, value: session.provider.text))
        fields.append(HTTPField(name: .authClient, value: session.client.text))
        fields.append(HTTPField(name: .authSession, value: session.handle.text))
        fields.append(HTTPField(name: .authName, value: bounded(claim("name", of: session))))
        fields.append(HTTPField(name: .authEmail, value: email(of: session)))
        fields.append(HTTPField(name: .authScope, value: bounded(session.scope.joined(separator: " "))))
    }

    private static func claim(_ name: String, of session: SessionView) -> String {
        session.identity.first { $0.name == name }?.value.string ?? ""
    }

    /// An address that the provider says is not verified is nobody's.
    private static func email(of session: SessionView) -> String {
        let verified = session.identity.first { $0.name == "email_verified" }?.value
        guard verified?.bool != false, verified?.string != "false" else { return "" }
        let text = encode(claim("email", of: session))
        return text.utf8.count <= maximumBytes ? text : ""
    }

    /// Encodes and, where it is too long, leaves it out: a list or name that is cut off means something else.
    private static func bounded(_ text: String) -> String {
        let encoded = encode(text)
        return encoded.utf8.count <= maximumBytes ? encoded : ""
    }

    /// Percent-encodes everything outside 0x21–0x7E, and the percent sign itself: two subjects never look the same.
    static func encode(_ text: String) -> String {
        var text = text
        let isPlain = text.withUTF8 { bytes in bytes.allSatisfy { $0 &- 0x21 < 0x5E && $0 != UInt8(ascii: "%") } }
        guard !isPlain else { return text }
        var bytes: [UInt8] = []
        let digits = Array("0123456789ABCDEF".utf8)
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
