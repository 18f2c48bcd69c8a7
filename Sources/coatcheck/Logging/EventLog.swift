import Broker
import Synchronization

/// Turns the domain's events into log lines and metrics.
///
/// Only this type has the names of both.
struct EventLog: Sendable {
    let log: ProcessLog
    let metrics: MetricsRegistry
    private let unchecked = FirstTimes()

    init(log: ProcessLog, metrics: MetricsRegistry) {
        self.log = log
        self.metrics = metrics
    }

    /// The port through which the domain emits events.
    var sink: EventSink { EventSink { [self] event in take(event) } }

    private func take(_ event: BrokerEvent) {
        switch event {
        case .loginStarted(let provider, let client):
            count("logins_started", provider, client)
            write(.debug, "login started", provider, client)
        case .loginRefused(let provider, let client, let code, let detail):
            count(
                "logins",
                [("provider", provider?.text ?? "-"), ("client", client?.text ?? "-"), ("result", code.rawValue)])
            write(.notice, "login refused", provider, client, [("code", code.rawValue), ("detail", detail)])
        case .issuerUnchecked(let provider):
            count("issuers_unchecked", [("provider", provider.text)])
            // One log line is enough, because the metric counts the further events.
            if unchecked.isFirst(provider) {
                write(
                    .warning, "callbacks name an issuer that cannot be checked: set `callback_issuer`", provider, nil)
            }
        case .loginBurned(let provider, let client):
            count("logins", provider, client, [("result", "burned")])
            write(.warning, "login finished by somebody else and burned", provider, client)
        case .loginSucceeded(let provider, let client, let session):
            count("logins", provider, client, [("result", "succeeded")])
            write(.info, "login succeeded", provider, client, [("session", session.text)])
        case .steppedUp(let provider, let client, let session):
            count("logins", provider, client, [("result", "stepped_up")])
            write(.info, "session stepped up", provider, client, [("session", session.text)])
        case .sidUnusable(let provider, let client, let session):
            write(
                .warning,
                "the id_token's `sid` is not a text of at most 4 KiB, so back-channel log-outs by `sid` have no effect",
                provider, client, [("session", session.text)])
        case .proofJudged(let provider, let client, let result):
            count("proofs", provider, client, [("result", result)])
            // A thief of a session token would send another key's proof.
            if result == ProofRefusal.key.result {
                write(.warning, "a session token was sent with another key's proof", provider, client)
            }
        case .presenceJudged(let provider, let client, let result):
            count("presence_proofs", provider, client, [("result", result)])
            if result == ProofRefusal.key.result {
                write(.warning, "a call was sent with another presence key's proof", provider, client)
            }
        case .presenceKeyChanged(let provider, let client, let session):
            count("presence_keys", provider, client)
            write(
                .info, "presence key registered", provider, client,
                [("event", "session.presence_key_changed"), ("session", session.text)])
        case .exchangeReplayed(let provider):
            count("exchanges_replayed", [("provider", provider.text)])
            write(.info, "exchange answered again", provider, nil)
        case .exchangeFailed(let provider, let client, let failure):
            count("exchanges_failed", provider, client, [("reason", failure.shortDescription)])
            write(
                .warning, "exchange failed", provider, client,
                [("reason", failure.shortDescription), ("detail", failure.detail)])
        case .registrationStarted(let provider, let client):
            count("registrations_started", provider, client)
            write(.info, "registration started", provider, client)
        case .registrationFinished(let provider, let client, let result):
            count("registrations", provider, client, [("result", result)])
            write(.info, "registration finished", provider, client, [("result", result)])
        case .refreshed, .refreshFailed, .refreshEndedSession, .refreshedTokenUnverified, .refreshWaited,
            .refreshShared, .tokenOfNoUse, .tokenNotBound, .proofRefused, .targetRefused, .upstreamKeepsRefusing:
            takeRefresh(event)
        case .sessionEnded, .accessTokenHandedOut, .childMade, .revocation, .providerSessionEnd, .logoutToken,
            .adminAction,
            .rowDidNotOpen,
            .storeFailed:
            takeOther(event)
        }
    }

    private func takeRefresh(_ event: BrokerEvent) {
        switch event {
        case .refreshed(let provider, let client, let session):
            count("refreshes", provider, client, [("result", "refreshed"), ("reason", "-")])
            write(.debug, "tokens refreshed", provider, client, [("session", session.text)])
        case .refreshFailed(let provider, let client, let session, let reason, let counted):
            count("refreshes", provider, client, [("result", "failed"), ("reason", reason)])
            var members = [("session", session.text), ("reason", reason)]
            if let error = counted, !error.isEmpty {
                let isDoubted = ["invalid_grant", "unauthorized_client"].contains(error)
                members += [
                    ("error", error),
                    (
                        "hint",
                        isDoubted
                            ? "the refusal may concern the DPoP proof or the client certificate, not the grant"
                            : "if the provider uses this code for a dead grant, list it in `token_response.invalid_grant_codes`"
                    ),
                ]
            }
            write(.warning, "refresh failed", provider, client, members)
        case .refreshEndedSession(let provider, let client, let session, let reason):
            count("refreshes", provider, client, [("result", "ended"), ("reason", reason.rawValue)])
            write(
                .notice, "refresh ended the session", provider, client,
                [("session", session.text), ("reason", reason.rawValue)])
        case .tokenOfNoUse(let provider, let client, let session, let detail):
            count("refreshes", provider, client, [("result", "failed"), ("reason", "unusable")])
            write(
                .warning, "the provider's answer for another API has no access token that can be used", provider,
                client,
                [("session", session.text), ("detail", detail)])
        case .tokenNotBound(let provider, let client, let session):
            count("refreshes", provider, client, [("result", "failed"), ("reason", "not_bound")])
            write(
                .warning, "the provider returned a Bearer token although DPoP was requested; the token is not used",
                provider,
                client, [("session", session.text)])
        case .proofRefused(let provider, let client, let session, let detail):
            write(
                .warning, "the provider refuses our proofs: compare the clocks (`coatcheck check --online`)", provider,
                client, [("session", session.text), ("detail", detail)])
        case .refreshedTokenUnverified(let provider, let client, let session, let detail):
            count("refreshed_id_tokens_unverified", provider, client)
            write(
                .warning, "a refreshed id_token does not verify", provider, client,
                [("session", session.text), ("detail", detail)])
        case .targetRefused(let provider, let client, let session, let detail):
            write(
                .warning, "the provider refuses an access token for another API", provider, client,
                [("session", session.text), ("detail", detail)])
        case .upstreamKeepsRefusing(let provider, let client, let session, let upstream, let pause):
            write(
                .warning, "an upstream refuses each newer access token of a session", provider, client,
                [
                    ("session", session.text), ("upstream", upstream),
                    ("not_refreshed_for_s", String(pause.wholeSeconds)),
                ])
        case .refreshWaited(let provider, let client): count("refresh_waits", provider, client)
        case .refreshShared(let provider, let client): count("refreshes_shared", provider, client)
        default: break
        }
    }

    /// The store operations that are not measured by `TimedStore`.
    static let uncounted = ["reseal", "tokenVersions", "takeProof", "returnProof"]

    private func takeOther(_ event: BrokerEvent) {
        switch event {
        case .sessionEnded(let reason, let count, let session):
            metrics.counter("coatcheck_sessions_ended_total", [("reason", reason.rawValue)]).increment(by: Int64(count))
            let members = [("reason", reason.rawValue), ("count", String(count))]
            log.write(.info, "sessions ended", session.map { [("session", $0.text)] + members } ?? members)
        case .accessTokenHandedOut(let provider, let client, let session):
            count("access_tokens_handed_out", provider, client)
            write(.info, "access token handed out", provider, client, [("session", session.text)])
        case .childMade(let provider, let client, let kind, let session):
            count("child_sessions", provider, client, [("kind", kind.text)])
            write(.info, "child session made", provider, client, [("kind", kind.text), ("session", session.text)])
        case .revocation(let provider, let result):
            count("revocations", [("provider", provider.text), ("result", result)])
            write(result == "done" ? .debug : .warning, "revocation", provider, nil, [("result", result)])
        case .providerSessionEnd(let provider, let result):
            count("provider_session_ends", [("provider", provider.text), ("result", result)])
            write(
                result == "done" ? .debug : .warning, "end of the provider's session", provider, nil,
                [("result", result)])
        case .logoutToken(let provider, let result):
            count("logout_tokens", [("provider", provider.text), ("result", result)])
            write(.notice, "logout token", provider, nil, [("result", result)])
        case .adminAction(let actor, let action):
            count("admin_actions", [("action", action)])
            log.write(.notice, "administration", [("actor", actor), ("action", action)])
        case .rowDidNotOpen(let kind, let unknownKey):
            count("rows_not_opened", [("kind", kind.rawValue), ("reason", unknownKey ? "unknown_key" : "integrity")])
            log.write(
                .error, "a sealed row did not open", [("kind", kind.rawValue), ("unknown_key", String(unknownKey))])
        case .storeFailed(let operation, let detail):
            // The timed store counts failures that pass it, even those without a log line.
            if Self.uncounted.contains(operation.description) {
                count("store_failures", [("operation", operation.description)])
            }
            log.write(.error, "store failed", [("operation", operation.description), ("detail", detail)])
        default: break
        }
    }

    private func count(
        _ name: String, _ provider: ProviderName, _ client: ClientName, _ further: [(String, String)] = []
    ) {
        count(name, [("provider", provider.text), ("client", client.text)] + further)
    }

    private func count(_ name: String, _ labels: [(String, String)]) {
        metrics.counter("coatcheck_\(name)_total", labels).increment(by: 1)
    }

    private func write(
        _ level: LogSettings.Level, _ message: String, _ provider: ProviderName?, _ client: ClientName?,
        _ further: [(String, String)] = []
    ) {
        var members: [(String, String)] = []
        if let provider { members.append(("provider", provider.text)) }
        if let client { members.append(("client", client.text)) }
        log.write(level, message, members + further)
    }
}

/// Remembers for which providers a line was already logged, so that it is logged once.
final class FirstTimes: Sendable {
    private let seen = Mutex<Set<ProviderName>>([])

    /// Returns whether this is the first call for the provider.
    func isFirst(_ provider: ProviderName) -> Bool { seen.withLock { $0.insert(provider).inserted } }
}
