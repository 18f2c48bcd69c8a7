import Broker

/// Writes session objects.
///
/// Every member is always there, and none is a token (SEC-52).
enum SessionBody {
    /// Returns the object's bytes; bearer clients get their token with the 201.
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

    /// Writes the members into an object that is open.
    static func members(of session: SessionView, into writer: inout JSONWriter) {
        writer.member("handle", session.handle.text)
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
        writer.member("created_at", session.createdAt.rfc3339)
        writer.member("last_used_at", session.lastUsedAt.rfc3339)
        writer.member("idle_expires_at", session.idleExpiresAt.rfc3339)
        writer.member("expires_at", session.expiresAt.rfc3339)
        writer.name("tokens")
        writer.object { writer in
            writer.member("expires_at", session.tokensExpireAt?.rfc3339)
            writer.member("refreshable", session.refreshable)
        }
        writer.name("binding")
        guard let binding = session.binding else { return writer.value(.null) }
        writer.object { writer in
            writer.member("jkt", binding.jkt)
            writer.member("evidence", binding.policy.evidence.rawValue)
        }
    }
}

/// Writes lists of sessions: the items are session objects with `current` and `device`.
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

/// Writes the sessions that operators list: session objects with `device`, `ended_at` and `reason`.
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
                        writer.member("ended_at", item.endedAt?.rfc3339)
                        writer.member("reason", item.reason?.rawValue)
                    }
                }
            }
            writer.member("next_cursor", page.nextCursor)
        }
        return writer.bytes
    }
}
