import Broker
import BrokerWire
import HTTPTypes
import NIOCore

/// The dependencies of the management handlers.
final class ManagementAPI: Sendable {
    let health: ManagementHealth
    let sessions: AdminSessions
    /// The operations on the store and the keys; nil if they are not offered.
    let store: ManagementStore?
    /// The comparison of configurations; nil unless the configuration came from a file.
    let comparison: ManagementComparison?
    let configuration: HTTPConfiguration
    let clock: BrokerClock
    /// SHA-256, for comparing admin tokens with their stored digests.
    let digest: @Sendable ([UInt8]) -> Digest
    let wrongTokens: TokenBuckets

    init(
        health: ManagementHealth, sessions: AdminSessions, store: ManagementStore?, comparison: ManagementComparison?,
        configuration: HTTPConfiguration, clock: BrokerClock, digest: @escaping @Sendable ([UInt8]) -> Digest,
        wrongTokens: TokenBuckets?
    ) {
        self.store = store
        self.comparison = comparison
        self.health = health
        self.sessions = sessions
        self.configuration = configuration
        self.clock = clock
        self.digest = digest
        self.wrongTokens =
            wrongTokens
            ?? TokenBuckets(perMinute: configuration.limits.charges.wrongTokensPerMinute, monotonic: clock.monotonic)
    }

    /// `GET /livez`: reports that the process serves requests.
    @Sendable func live(_ call: Call) async throws(BrokerProblem) -> Answer {
        Answers.json(.ok, Self.status("live"), call)
    }

    /// `GET /readyz`: reports whether the broker is ready.
    ///
    /// The broker is ready if the store is reachable and migrated, the store's role has its rights, and the key ring opens the
    /// stored values. Providers, the clock and a full disk are shown, but do not affect readiness, because the broker still
    /// serves sessions.
    @Sendable func ready(_ call: Call) async throws(BrokerProblem) -> Answer {
        var store = "ok"
        do throws(StoreFailure) { try await health.ping() } catch { store = "unavailable" }
        let found = health.conditions()
        let keys = found.keysFit ? "ok" : "do_not_open_the_store"
        let status = Self.status(found, storeAnswers: store == "ok")
        let providers = health.providers()
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("status", status)
            writer.member("store", store)
            writer.member("disk", found.diskIsFull ? "full" : "ok")
            if let file = found.endingsFile { writer.member("endings_file", file) }
            writer.member("keys", keys)
            if let ahead = found.clockAhead { writer.member("clock_ahead_seconds", ahead.components.seconds) }
            writer.name("problems")
            writer.array { writer in
                for problem in Self.problems(found, storeAnswers: store == "ok") { writer.value(.string(problem)) }
                for provider in providers {
                    for warning in provider.warnings {
                        writer.value(.string("provider \(provider.name.text): \(warning)"))
                    }
                }
            }
            writer.name("providers")
            writer.object { writer in
                for provider in providers { writer.member(provider.name.text, provider.state) }
            }
            certificates(&writer)
        }
        guard status != "ready" else { return Answers.json(.ok, writer.bytes, call) }
        return Answers.json(.serviceUnavailable, writer.bytes, call, adding: [Self.retryAfter])
    }

    /// Writes the clients' certificates and their remaining time; writes nothing if there are none.
    private func certificates(_ writer: inout JSONWriter) {
        let all = health.certificates()
        guard !all.isEmpty else { return }
        let now = clock.now()
        writer.name("certificates")
        writer.array { writer in
            for certificate in all {
                writer.object { writer in
                    writer.member("provider", certificate.provider.text)
                    writer.member("client", certificate.client.text)
                    writer.member("not_after", certificate.notAfter.rfc3339)
                    writer.member("days_left", certificate.daysLeft(at: now))
                }
            }
        }
    }

    /// Returns `ready`, or in one word the first condition that keeps the broker from being ready.
    private static func status(_ found: ManagementHealth.Conditions, storeAnswers: Bool) -> String {
        if found.drain != nil { return "shutting_down" }
        if !storeAnswers { return "store_unavailable" }
        if !found.hasRights { return "store_rights_missing" }
        return found.keysFit ? "ready" : "keys_do_not_fit"
    }

    /// The sentences for `problems` in `/readyz`, one for each present fault.
    private static func problems(_ found: ManagementHealth.Conditions, storeAnswers: Bool) -> [String] {
        var problems: [String] = []
        if let drain = found.drain {
            problems.append(
                "shutting down: \(drain.requests) requests and \(drain.streams) event streams are under way")
        }
        if !storeAnswers { problems.append("the store does not answer, or is not migrated") }
        if let lacking = found.lackingRights { problems.append("\(lacking); GRANT them to it") }
        if !found.keysFit {
            problems.append("the key ring is not the store's: \(found.keys)")
        } else if let foreign = found.foreignKeys {
            problems.append(foreign)
        }
        if found.diskIsFull {
            problems.append("the store's disk is full: sign-ins are refused, sessions are served and ended")
        }
        if found.pendingEndings > 0 {
            problems.append("\(found.pendingEndings) endings wait for the disk: make room before a restart")
        }
        if let file = found.endingsFile, file != "ok" {
            problems.append("the endings file takes nothing (\(file)): \(found.unkeptEndings) endings wait for it")
        }
        return problems
    }

    private static let retryAfter = HTTPField(name: .retryAfter, value: "5")

    /// `GET /metrics`: Prometheus text.
    @Sendable func metrics(_ call: Call) async throws(BrokerProblem) -> Answer {
        var fields = Answers.fields(call.requestID)
        fields.append(Self.prometheus)
        let text = await health.metrics()
        return Answer(.ok, fields, body: .whole(ByteBuffer(string: text)))
    }

    private static let prometheus = HTTPField(name: .contentType, value: "text/plain; version=0.0.4; charset=utf-8")

    private static func status(_ text: String) -> [UInt8] {
        var writer = JSONWriter(capacity: 32)
        writer.object { $0.member("status", text) }
        return writer.bytes
    }
}
