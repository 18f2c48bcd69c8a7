import Broker

/// The records of sessions, of the work after their end, and of the store.
extension EventRecord {
    /// The store operations that are not measured by `TimedStore`.
    static let unmeasured = ["reseal", "tokenVersions", "takeProof", "returnProof"]

    static func sessionEnded(_ reason: EndReason, _ count: Int, _ session: SessionHandle?) -> EventRecord {
        var record = counted("sessions_ended", [("reason", reason.rawValue)]).logged(
            .info, "sessions ended", nil, nil, session: session,
            [("reason", reason.rawValue), ("count", String(count))])
        record.count = count
        return record
    }

    static func accessTokenHandedOut(
        _ provider: ProviderName, _ client: ClientName, _ session: SessionHandle
    ) -> EventRecord {
        counted("access_tokens_handed_out", provider, client)
            .logged(.info, "access token handed out", provider, client, session: session)
    }

    static func childMade(
        _ provider: ProviderName, _ client: ClientName, _ kind: ChildKind, _ session: SessionHandle
    ) -> EventRecord {
        counted("child_sessions", provider, client, [("kind", kind.text)]).logged(
            .info, "child session made", provider, client, [("kind", kind.text), ("session", session.text)])
    }

    // MARK: At the provider

    static func revocation(_ provider: ProviderName, _ result: String) -> EventRecord {
        counted("revocations", [("provider", provider.text), ("result", result)])
            .logged(result == "done" ? .debug : .warning, "revocation", provider, nil, [("result", result)])
    }

    static func providerSessionEnd(_ provider: ProviderName, _ result: String) -> EventRecord {
        counted("provider_session_ends", [("provider", provider.text), ("result", result)]).logged(
            result == "done" ? .debug : .warning, "end of the provider's session", provider, nil, [("result", result)])
    }

    static func logoutToken(_ provider: ProviderName, _ result: String) -> EventRecord {
        counted("logout_tokens", [("provider", provider.text), ("result", result)])
            .logged(.notice, "logout token", provider, nil, [("result", result)])
    }

    // MARK: Administration and the store

    static func adminAction(_ actor: String, _ action: String) -> EventRecord {
        counted("admin_actions", [("action", action)])
            .logged(.notice, "administration", [("actor", actor), ("action", action)])
    }

    static func rowDidNotOpen(_ kind: SealedKind, _ unknownKey: Bool) -> EventRecord {
        counted("rows_not_opened", [("kind", kind.rawValue), ("reason", unknownKey ? "unknown_key" : "integrity")])
            .logged(
                .error, "a sealed row did not open", [("kind", kind.rawValue), ("unknown_key", String(unknownKey))])
    }

    static func storeFailed(_ operation: String, _ detail: String) -> EventRecord {
        // `TimedStore` itself counts the failures of all measured operations, even those without a log line.
        let record = unmeasured.contains(operation) ? counted("store_failures", [("operation", operation)]) : uncounted
        return record.logged(.error, "store failed", [("operation", operation), ("detail", detail)])
    }
}
