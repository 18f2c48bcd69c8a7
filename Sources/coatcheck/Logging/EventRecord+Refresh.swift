import Broker

/// The records of refreshes, and of tokens for other APIs.
extension EventRecord {
    static func refreshWaited(_ provider: ProviderName, _ client: ClientName) -> EventRecord {
        counted("refresh_waits", provider, client)
    }

    static func refreshShared(_ provider: ProviderName, _ client: ClientName) -> EventRecord {
        counted("refreshes_shared", provider, client)
    }

    static func refreshed(_ provider: ProviderName, _ client: ClientName, _ session: SessionHandle) -> EventRecord {
        refreshes(provider, client, "refreshed").logged(.debug, "tokens refreshed", provider, client, session: session)
    }

    /// `counted` is the error code of a refusal that may mean a dead grant, or empty if the answer had no body; nil for other
    /// failures.
    static func refreshFailed(
        _ provider: ProviderName, _ client: ClientName, _ session: SessionHandle, _ reason: String, _ counted: String?
    ) -> EventRecord {
        var members = [("reason", reason)]
        if let error = counted, !error.isEmpty { members += [("error", error), ("hint", hint(for: error))] }
        return refreshes(provider, client, "failed", reason)
            .logged(.warning, "refresh failed", provider, client, session: session, members)
    }

    private static func hint(for error: String) -> String {
        ["invalid_grant", "unauthorized_client"].contains(error)
            ? "the refusal may concern the DPoP proof or the client certificate, not the grant"
            : "if the provider uses this code for a dead grant, list it in `token_response.invalid_grant_codes`"
    }

    static func refreshEndedSession(
        _ provider: ProviderName, _ client: ClientName, _ session: SessionHandle, _ reason: EndReason
    ) -> EventRecord {
        refreshes(provider, client, "ended", reason.rawValue).logged(
            .notice, "refresh ended the session", provider, client, session: session, [("reason", reason.rawValue)])
    }

    static func tokenOfNoUse(
        _ provider: ProviderName, _ client: ClientName, _ session: SessionHandle, _ detail: String
    ) -> EventRecord {
        refreshes(provider, client, "failed", "unusable").logged(
            .warning, "the provider's answer for another API has no access token that can be used", provider, client,
            session: session, [("detail", detail)])
    }

    static func tokenNotBound(
        _ provider: ProviderName, _ client: ClientName, _ session: SessionHandle
    ) -> EventRecord {
        refreshes(provider, client, "failed", "not_bound").logged(
            .warning, "the provider returned a Bearer token although DPoP was requested; the token is not used",
            provider, client, session: session)
    }

    static func proofRefused(
        _ provider: ProviderName, _ client: ClientName, _ session: SessionHandle, _ detail: String
    ) -> EventRecord {
        uncounted.logged(
            .warning, "the provider refuses our proofs: compare the clocks (`coatcheck check --online`)", provider,
            client, session: session, [("detail", detail)])
    }

    static func refreshedTokenUnverified(
        _ provider: ProviderName, _ client: ClientName, _ session: SessionHandle, _ detail: String
    ) -> EventRecord {
        counted("refreshed_id_tokens_unverified", provider, client).logged(
            .warning, "a refreshed id_token does not verify", provider, client, session: session, [("detail", detail)])
    }

    static func targetRefused(
        _ provider: ProviderName, _ client: ClientName, _ session: SessionHandle, _ detail: String
    ) -> EventRecord {
        uncounted.logged(
            .warning, "the provider refuses an access token for another API", provider, client, session: session,
            [("detail", detail)])
    }

    static func upstreamKeepsRefusing(
        _ provider: ProviderName, _ client: ClientName, _ session: SessionHandle, _ upstream: String, _ pause: Duration
    ) -> EventRecord {
        uncounted.logged(
            .warning, "an upstream refuses each newer access token of a session", provider, client, session: session,
            [("upstream", upstream), ("not_refreshed_for_s", String(pause.wholeSeconds))])
    }

    private static func refreshes(
        _ provider: ProviderName, _ client: ClientName, _ result: String, _ reason: String = "-"
    ) -> EventRecord {
        counted("refreshes", provider, client, [("result", result), ("reason", reason)])
    }
}
