import Broker

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
