import Broker
import BrokerRelay
package import BrokerWire
package import HTTPTypes
package import NIOCore

/// Serves one listener: finds the route, holds it to the rules that all routes share, and makes every answer whole.
///
/// One function instead of a stack of middlewares: the rules and their order stand in `serve`, and a request costs no
/// allocation for them.
///
/// A class, because each request asks the running configuration for it, and a copy would count a score of references.
package final class BrokerResponder: WireService {
    /// The routes, for the test that compares them with the contract.
    package let routes: [Route]
    private let table: RouteTable
    let rules: ListenerRules
    private let errors: ProblemResponder
    private let limits: HTTPLimits
    private let clock: BrokerClock
    private let load: ServerLoad
    private let log: RequestLog
    /// Nil where nothing is traced.
    private let traces: TraceStarter?
    private let framing: FramingProblems
    private let date = FormattedTimeCache(\.httpDate)
    private let isRefusing: Bool

    init(
        routes: [Route], rules: ListenerRules, errors: ProblemResponder, limits: HTTPLimits, clock: BrokerClock,
        load: ServerLoad, log: RequestLog, traces: TraceStarter? = nil, appLinkPaths: [String] = []
    ) {
        self.traces = traces
        self.routes = routes
        table = RouteTable(routes, appLinkPaths: appLinkPaths)
        self.rules = rules
        self.errors = errors
        self.limits = limits
        self.clock = clock
        self.load = load
        self.log = log
        framing = FramingProblems(log: log, hasStrictTransport: rules.hasStrictTransport)
        isRefusing = false
    }

    private init(refusing responder: BrokerResponder) {
        routes = responder.routes
        table = responder.table
        rules = responder.rules
        errors = responder.errors
        limits = responder.limits
        clock = responder.clock
        load = responder.load
        log = responder.log
        traces = responder.traces
        framing = responder.framing
        isRefusing = true
    }

    /// The same listener while the process ends: it refuses everything (503 `shutting_down`), and touches nothing that may
    /// be closed by then.
    package var refusing: BrokerResponder { BrokerResponder(refusing: self) }

    /// The status that nginx and others log where the client hung up before the answer; it is never sent.
    private static let clientClosedRequest = 499

    /// Serves a request of a connection.
    package func respond(
        to request: HTTPRequest, body: RequestBody, of connection: ClientConnection
    ) async -> Answer {
        await respond(to: request, body: body, on: connection.eventLoop, of: connection)
    }

    package func refuse(_ refusal: FramingRefusal, on connection: ClientConnection) -> Answer {
        framing.answer(refusal, connection)
    }

    /// Serves a request, which in-process has no connection; whatever becomes of it has an answer.
    package func respond(
        to request: HTTPRequest, body: RequestBody, on eventLoop: any EventLoop, of connection: ClientConnection? = nil
    ) async -> Answer {
        load.requestBegan()
        defer { load.requestEnded() }
        let start = clock.monotonic()
        let call = Call(
            request: request, stream: body, requestID: RequestID.fresh(), connection: connection,
            eventLoop: eventLoop)
        var circumstances = ProblemResponder.Circumstances()
        var template = "-"
        let scope = RequestScope(
            requestID: call.requestID,
            span: traces.map { $0.begin("request", .server, rules.traceOrigin(of: call)) })
        let outcome = await RequestScope.$current.withValue(scope) { () async -> Result<Answer, BrokerProblem> in
            do throws(BrokerProblem) {
                return .success(try await serve(call, &circumstances, &template))
            } catch {
                return .failure(error)
            }
        }
        var answer: Answer
        var problem: BrokerProblem?
        // Consumed: a copy that lives on would have every field copied when the next is appended.
        switch consume outcome {
        case .success(let made): answer = made
        case .failure(let error):
            problem = error
            circumstances.usedBasic = call.fields.authorization.contains { $0.prefix(6).isASCIIEqual(to: "basic ") }
            circumstances.hasSessionCookie = rules.hasSessionCookie(call.fields)
            circumstances.hasPass = rules.hasPassCookie(call.fields)
            circumstances.hasWebCookie =
                !circumstances.hasSessionCookie && call.fields.authorization.isEmpty
                && rules.hasWebCookie(call.fields)
            answer = errors.answer(error, requestID: call.requestID, circumstances)
        }
        if scope.wantsNonce, problem?.proof == nil { errors.addNonce(to: &answer.fields) }
        rules.addOriginFields(to: &answer.fields, call)
        if rules.hasStrictTransport { answer.fields.append(SecurityFields.strictTransport) }
        answer.fields.append(HTTPField(name: .date, value: date.text(at: clock.now())))
        if call.isHead, !circumstances.isRelay || problem != nil { answer.leaveBodyOut() }
        if isRefusing || load.isDraining { answer.closes = true }
        answer.countWriting(in: load, asRequest: circumstances.isRelay)
        // Nobody heard the refusal of a call that its client gave up: it must not look like an outage.
        let isUnheard = problem != nil && call.connection?.isGone == true
        let status = isUnheard ? Self.clientClosedRequest : answer.status.code
        scope.span?.endRequest(request.method, template, status, problem, scope)
        log.record(
            RequestRecord(
                method: request.method.rawValue, route: template, status: status,
                duration: clock.monotonic() - start, requestID: call.requestID, client: rules.client(of: call).text,
                session: scope.session,
                failed: circumstances.isRelay && (problem != nil || status >= 500) ? scope.failedCallee : nil,
                traceID: scope.span?.traceID, untrustedProxy: rules.untrustedProxy(of: call),
                userAgent: call.fields.userAgent, code: problem?.code, privateDetail: problem?.privateDetail))
        return answer
    }

    private func serve(
        _ call: Call, _ circumstances: inout ProblemResponder.Circumstances, _ template: inout String
    ) async throws(BrokerProblem) -> Answer {
        circumstances.isRelay = call.path.utf8.starts(with: RelayTarget.prefix.utf8)
        try rules.checkName(call)
        guard let found = table.find(call.path) else { throw BrokerProblem(.notFound) }
        template = found.entry.template
        circumstances.allow = found.entry.methods
        if let preflight = rules.preflight(call, methods: found.entry.methods) { return preflight }
        guard let route = found.entry.route(call.request.method) else {
            throw BrokerProblem(.methodNotAllowed)
        }
        circumstances.isOAuth = route.traits.contains(.oauthErrors)
        circumstances.isPage =
            route.traits.contains(.page)
            && call.request.headerFields[.accept]?.contains("application/problem+json") != true
        // The next process, or another one, is a moment away.
        if isRefusing { throw BrokerProblem(.shuttingDown, retryAfter: .zero) }
        try rules.checkOrigin(call, route)
        let call = call.with(parameters: found.parameters)
        guard !route.traits.contains(.relay), call.fields.hasBody || MediaType(route.traits) != nil else {
            return try await route.handler(call)
        }
        // nginx and others announce the body of the user's request and keep it.
        guard !route.readsNoBody else {
            do throws(BodyFault) { try await call.stream.leaveUnread() } catch { throw BodyReader.problem(error) }
            return try await route.handler(call)
        }
        return try await serveWithBody(call, route)
    }

    /// Serves a request with the body that its head does not refuse already: none is asked for by `100 Continue`, and
    /// none is held, of one that has nothing to prove itself with or is of another type (RFC 9110 section 10.1.1).
    private func serveWithBody(_ call: Call, _ route: Route) async throws(BrokerProblem) -> Answer {
        // A caller who may not ask at all hears that, and not what else is wrong.
        let owner = try await route.proof?(call)
        try MediaType(route.traits)?.check(call.fields)
        guard call.fields.hasBody else { return try await route.handler(call) }
        let maximum = route.traits.contains(.largeBody) ? HTTPLimits.largeBody : limits.body
        var place: HeldBodies.Place?
        if let owner { place = try load.bodies.take(call.fields.contentLength, of: maximum, for: owner) }
        // Once the answer is made: the handler has the body all the while.
        defer { place.map(load.bodies.giveBack) }
        let body = try await BodyReader.collect(call, upTo: maximum, within: limits.bodyDeadline)
        return try await route.handler(call.with(body: body))
    }
}
