import Broker
import HTTPTypes

/// Writes session objects (openapi.yaml).
///
/// All members are always present. Tokens are left out (SEC-52).
enum SessionBody {
    /// Returns the object's bytes.
    ///
    /// In the 201 of a sign-in, the object also has `session_token` for clients with bearer tokens.
    static func bytes(_ session: SessionView, sessionToken: Secret? = nil, pass: GrantedPass? = nil) -> [UInt8] {
        var writer = JSONWriter(capacity: 640)
        writer.object { writer in
            members(of: session, into: &writer)
            if let sessionToken { writer.member("session_token", sessionToken.reveal()) }
            if let pass {
                writer.name("pass")
                writer.object { PassBody.members(of: pass, into: &$0) }
            }
        }
        return writer.bytes
    }

    /// Writes the members into an object that the caller has opened.
    static func members(of session: SessionView, into writer: inout JSONWriter) {
        writer.member("handle", session.handle.text)
        writer.member("version", session.version)
        writer.member("provider", session.provider.text)
        writer.member("client", session.client.text)
        writer.member("subject", session.subject)
        writer.name("identity")
        writer.object { writer in
            for claim in session.identity where claim.name != "unverified" { writer.member(claim.name, claim.value) }
            writer.name("unverified")
            writer.object { writer in
                for claim in session.unverified { writer.member(claim.name, claim.value) }
            }
        }
        writer.name("scope")
        writer.array { writer in for scope in session.scope { writer.string(scope) } }
        writer.member("created_at", session.createdAt)
        writer.member("last_used_at", session.lastUsedAt)
        writer.member("idle_expires_at", session.idleExpiresAt)
        writer.member("expires_at", session.expiresAt)
        writer.name("tokens")
        writer.object { writer in
            writer.member("expires_at", session.tokensExpireAt)
            writer.member("refreshable", session.refreshable)
        }
        writer.member("acr", session.signIn.contextClass)
        writer.name("amr")
        writer.array { writer in for method in session.signIn.methods { writer.string(method) } }
        writer.member("authenticated_at", session.signIn.authenticatedAt.map(WallTime.init(seconds:)))
        writer.member("kind", session.child?.kind.text)
        writer.member("parent", session.child?.parentHandle.text)
        writer.name("binding")
        if let binding = session.binding {
            writer.object { writer in
                writer.member("jkt", binding.jkt)
                writer.member("evidence", binding.policy.evidence.rawValue)
            }
        } else {
            writer.value(.null)
        }
        writer.name("presence")
        guard let presence = session.presence else { return writer.value(.null) }
        writer.object { writer in
            writer.member("jkt", presence.jkt)
            writer.member("registered_at", presence.registeredAt)
        }
    }
}

/// Writes lists of sessions; the items are session objects with `current` and `device`.
enum SessionListBody {
    static func bytes(_ items: [(session: SessionView, isCurrent: Bool)], nextCursor: String?) -> [UInt8] {
        var writer = JSONWriter(capacity: 128 + 640 * items.count)
        writer.object { writer in
            writer.name("items")
            writer.array { writer in
                for item in items {
                    writer.object { writer in
                        SessionBody.members(of: item.session, into: &writer)
                        writer.member("current", item.isCurrent)
                        writer.member("device", item.session.device)
                    }
                }
            }
            writer.member("next_cursor", nextCursor)
        }
        return writer.bytes
    }
}

/// Writes the operators' list of sessions; the items are session objects with `device`, `sender_constrained`, `ended_at` and
/// `reason`.
enum AdminSessionListBody {
    static func bytes(_ page: SessionPage) -> [UInt8] {
        var writer = JSONWriter(capacity: 128 + 640 * page.items.count)
        writer.object { writer in
            writer.name("items")
            writer.array { writer in
                for item in page.items {
                    writer.object { writer in
                        SessionBody.members(of: item.session, into: &writer)
                        writer.member("device", item.session.device)
                        writer.member("sender_constrained", item.senderConstraint?.rawValue)
                        writer.member("ended_at", item.endedAt)
                        writer.member("reason", item.reason?.rawValue)
                    }
                }
            }
            writer.member("next_cursor", page.nextCursor)
        }
        return writer.bytes
    }
}

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

/// Writes the description of a pass for the phone.
enum PassBody {
    /// Returns the object's bytes.
    ///
    /// Clients with cookies get the pass only in the cookie, so this object leaves the pass out.
    static func bytes(_ pass: GrantedPass) -> [UInt8] {
        var writer = JSONWriter(capacity: 128)
        writer.object { members(of: pass, into: &$0) }
        return writer.bytes
    }

    /// Writes the members into an object that the caller has opened.
    static func members(of pass: GrantedPass, into writer: inout JSONWriter) {
        writer.member("expires_at", pass.expiresAt)
        writer.member("expires_in", pass.lifetime.wholeSeconds)
        if pass.transport == .bearer { writer.member("pass", pass.text.reveal()) }
    }
}
