import Broker
import BrokerRelay
import BrokerWire
import HTTPTypes
import NIOCore
import Synchronization
import Testing

/// Answers every request with 200 and `ok`.
@Sendable func answeringOK(_ connection: ScriptedConnection) async throws {
    while try await connection.request() != nil { try await connection.answer() }
}

/// Gives out access tokens, and counts them: all, and those for which the relay demanded a forced refresh.
final class TokenGiver: Sendable {
    private let state = Mutex<(given: Int, forced: Int)>((0, 0))
    let name: String

    init(_ name: String = "token") { self.name = name }

    var given: Int { state.withLock(\.given) }
    var forced: Int { state.withLock(\.forced) }

    func give(_ force: Bool) -> AccessToken {
        let forced = state.withLock { state in
            state.given += 1
            if force { state.forced += 1 }
            return state.forced
        }
        return AccessToken(Secret("\(name)-\(forced)"))
    }
}

/// Judges sign-ins as the test chooses, and records the demands.
final class SignIns: SignInJudging {
    private let state = Mutex<(required: [StepUpDemand], challenges: [(demand: StepUpDemand, isLast: Bool)])>(([], []))
    /// The problem that answers every demand, or nil if all demands are met.
    let refusal: ProblemCode?

    /// The session that the judge returns instead of the session of the call; nil if it returns the session of the call.
    let judged: LiveSession?

    init(_ refusal: ProblemCode? = nil, judged: LiveSession? = nil) {
        self.refusal = refusal
        self.judged = judged
    }

    var required: [StepUpDemand] { state.withLock(\.required) }
    var challenges: [(demand: StepUpDemand, isLast: Bool)] { state.withLock(\.challenges) }

    func require(_ demand: StepUpDemand, of session: LiveSession) async throws(BrokerProblem) -> LiveSession {
        state.withLock { $0.required.append(demand) }
        if let refusal { throw BrokerProblem(refusal) }
        return judged ?? session
    }

    func judge(
        challenge: StepUpDemand, of session: LiveSession, target: TokenTarget?, isLast: Bool
    ) async throws(BrokerProblem) -> LiveSession {
        state.withLock { $0.challenges.append((challenge, isLast)) }
        if let refusal { throw BrokerProblem(refusal) }
        if isLast { throw BrokerProblem(.stepUpFailed) }
        return judged ?? session
    }
}

/// A relay with one upstream, `api`, and functions to call it.
struct RelayFixture {
    let relay: Relay
    var session = RelayFixture.session()
    let tokens = TokenGiver()
    var signIns = SignIns()

    static func session(
        provider: String = "google", client: String = "ios", subject: String = "ana", number: UInt8 = 0,
        refreshable: Bool = true
    ) -> LiveSession {
        guard let digest = Digest(Array(repeating: 0, count: 32)) else { preconditionFailure("32 bytes") }
        let (sealed, time) = (Sealed(keyID: "", envelope: []), WallTime(milliseconds: 0))
        let row = SessionRow(
            tokenDigest: digest, handle: SessionHandle(random: Array(repeating: number, count: 16)), subject: digest,
            subjectAndClient: digest, sid: nil, provider: digest, client: digest, createdAt: time, lastUsedAt: time,
            idleExpiresAt: time, expiresAt: time, tokenExpiresAt: nil, refreshable: refreshable, facts: sealed,
            tokens: sealed)
        let facts = SessionFacts(
            provider: ProviderName(unchecked: provider), client: ClientName(unchecked: client), subject: subject,
            identity: [], unverified: [], scope: [], device: nil, lifetimes: SessionLifetimes())
        return LiveSession(row: row, facts: facts, binding: nil)
    }

    /// Returns the fixture for another user, or for another session of the same user.
    func of(_ subject: String = "ana", _ number: UInt8 = 0) -> RelayFixture {
        var other = self
        other.session = Self.session(subject: subject, number: number)
        return other
    }

    static func run(
        at url: String, allow: [String] = ["ANY /**"], clients: [String]? = nil,
        credential: TokenSet.Credential = .bearer, requestHeaders: [String] = [], timeout: Duration = .seconds(10),
        readTimeout: Duration = .seconds(10), isInternal: Bool = false, maximumConcurrent: Int = 1024,
        maximumBody: Int = 1 << 30, ownNames: [String] = [], hidesEmployees: Bool = false,
        proof: ProofPresentation = ProofPresentation(), proofs: RelayProofs? = nil, require: [UpstreamRequirement] = [],
        passesChallenges: Bool = true, certificates: ClientCertificates? = nil,
        signIns: SignIns = SignIns(),
        _ body: (RelayFixture) async throws -> Void
    ) async throws {
        var settings = try UpstreamSettings(
            name: UpstreamName(unchecked: "api"), baseURL: url, provider: ProviderName(unchecked: "google"),
            clients: clients?.map(ClientName.init(unchecked:)), allow: allow, credential: credential,
            requestHeaders: requestHeaders, timeout: timeout, isInternal: isInternal,
            maximumConcurrent: maximumConcurrent)
        settings.hidesEmployees = hidesEmployees
        settings.proof = proof
        settings.require = require
        settings.passesChallenges = passesChallenges
        let relay = Relay(
            upstreams: [settings], outbound: RelayOutbound(readTimeout: readTimeout), maximumBody: maximumBody,
            ownNames: ownNames, proofs: proofs, certificates: certificates)
        do { try await body(RelayFixture(relay: relay, signIns: signIns)) } catch {
            await relay.shutdown()
            throw error
        }
        await relay.shutdown()
    }

    /// Makes a request for a raw target behind `/v1/relay/api`.
    func request(
        _ method: HTTPRequest.Method = .get, _ target: String, headers: HTTPFields = [:],
        body: UpstreamRequest.Body = .none
    ) throws -> RelayRequest {
        RelayRequest(
            method: method, target: try #require(RelayTarget("/v1/relay/api" + target)), headers: headers, body: body,
            requestID: "req-1")
    }

    func call(
        _ method: HTTPRequest.Method = .get, _ target: String, headers: HTTPFields = [:],
        body: UpstreamRequest.Body = .none
    ) async throws -> RelayResponse {
        let tokens = tokens
        return try await relay.call(
            try request(method, target, headers: headers, body: body), session: session, signIns: signIns,
            token: { (_, _, force) throws(BrokerProblem) in tokens.give(force) })
    }

    /// Makes a call and returns the problem that it must throw.
    func problem(
        _ method: HTTPRequest.Method = .get, _ target: String, headers: HTTPFields = [:],
        body: UpstreamRequest.Body = .none
    ) async throws -> BrokerProblem {
        do {
            let response = try await call(method, target, headers: headers, body: body)
            throw Unexpected(status: response.status.code)
        } catch let problem as BrokerProblem {
            return problem
        }
    }
}

struct Unexpected: Error { let status: Int }

extension AccessToken {
    /// Creates a token with a value and a scheme, as the relay sees it.
    convenience init(_ token: Secret, _ credential: TokenSet.Credential = .bearer, key: ProofKeyPair? = nil) {
        self.init(
            token: token, credential: credential, key: key, expiresAt: nil, scope: [], version: 1,
            issuedAt: WallTime(milliseconds: 0))
    }
}

extension RelayResponse.Body {
    /// Reads the whole body.
    func text() async throws -> String {
        switch self {
        case .none: return ""
        case .buffered(let buffer): return String(buffer: buffer)
        case .stream(let stream):
            var whole = ByteBuffer()
            for try await var chunk in stream { whole.writeBuffer(&chunk) }
            return String(buffer: whole)
        }
    }
}

/// A body of equal chunks, made on demand.
struct ChunkSource: AsyncSequence, Sendable {
    let chunk: ByteBuffer
    let count: Int
    let asked = Counter()

    final class Counter: Sendable {
        private let value = Mutex(0)
        var count: Int { value.withLock { $0 } }
        func increment() { value.withLock { $0 += 1 } }
    }

    struct AsyncIterator: AsyncIteratorProtocol {
        let source: ChunkSource
        var left: Int
        mutating func next() async throws -> ByteBuffer? {
            guard left > 0 else { return nil }
            left -= 1
            source.asked.increment()
            return source.chunk
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(source: self, left: count) }
}
