import NIOCore
import NIOHTTP1

/// Stands between the HTTP/1 decoder and everything else: lets well-formed requests through one after the other,
/// answers the rest itself with a problem document, and closes after what cannot be followed by another request.
///
/// The default channel answers a header overflow without a body and lets ambiguous requests pass (engineering note 1).
final class FramingHandler: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private struct Waiting {
        let version: HTTPVersion
        let isHead: Bool
        var close: Bool
    }

    private let linger: TimeAmount
    /// Makes the whole answer to a refused request.
    private let refusal: (FramingRefusal) -> FramingAnswer
    /// Requests that were let in and whose answers have not ended, oldest first.
    private var waiting: [Waiting] = []
    /// Whether the newest request's end has not come yet.
    private var bodyOpen = false
    /// Whether nothing that comes in is read any more.
    private var deaf = false
    /// What to answer once everything let in before is answered.
    private var refused: FramingRefusal?
    private var quiescing = false
    private var closeOnFlush = false
    private var closing = false
    private var lingerTimer: Scheduled<Void>?

    init(linger: TimeAmount, refusal: @escaping (FramingRefusal) -> FramingAnswer) {
        self.linger = linger
        self.refusal = refusal
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !deaf else { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            switch FramingRules.check(head) {
            case .refuse: refuse(.malformed, context: context)
            case .pass(let expectsContinue, let close, let path):
                if expectsContinue, waiting.isEmpty {
                    let interim = HTTPResponseHead(version: .http1_1, status: .continue)
                    context.writeAndFlush(wrapOutboundOut(.head(interim)), promise: nil)
                }
                waiting.append(Waiting(version: head.version, isHead: head.method == .HEAD, close: close))
                bodyOpen = true
                // What needs no change goes on as it came: a head that is written to is copied first.
                guard let path else { return context.fireChannelRead(data) }
                var rewritten = head
                rewritten.uri = path
                context.fireChannelRead(wrapInboundOut(.head(rewritten)))
            }
        case .body: if bodyOpen { context.fireChannelRead(data) }
        case .end:
            guard bodyOpen else { return }
            bodyOpen = false
            context.fireChannelRead(data)
            if waiting.last?.close == true { deaf = true }
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        context.fireChannelReadComplete()
        // Whoever paused reading is gone: what is left is thrown away here.
        if closing { context.read() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? HTTPParserError else { return context.fireErrorCaught(error) }
        guard !deaf else { return }
        if bodyOpen {
            // A body that breaks off is its request's to answer, unless that is answered already.
            deaf = true
            guard !waiting.isEmpty else { return shut(context) }
            waiting[waiting.count - 1].close = true
            context.fireErrorCaught(error)
        } else {
            refuse(error == .headerOverflow ? .tooLarge : .malformed, context: context)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ChannelShouldQuiesceEvent { quiescing = true }
        if let event = event as? ChannelEvent, event == .inputClosed, closing { context.close(promise: nil) }
        context.fireUserInboundEventTriggered(event)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard !waiting.isEmpty, !closing else {
            // An answer to nothing: a request whose answer has ended has no second one.
            promise?.fail(ChannelError.outputClosed)
            return
        }
        switch unwrapOutboundIn(data) {
        case .head(let head) where head.status.code >= 200:
            guard let first = waiting.first else { return }
            let saysClose = head.headers.contains { $0.name.isASCIIEqual(to: "connection") }
            // The encoder would end a body of unknown length with a chunk, and HEAD has no body: such an answer is
            // written as HTTP/1.0, whose bodies have no chunks.
            let isBare = first.isHead && !head.headers.contains(name: "content-length")
            let closes = first.close || saysClose || isBare || (quiescing && waiting.count == 1 && refused == nil)
            guard closes else { return context.write(data, promise: promise) }
            waiting[0].close = true
            var last = head
            last.version = isBare ? .http1_0 : first.version
            if !saysClose { last.headers.add(name: "connection", value: "close") }
            context.write(wrapOutboundOut(.head(last)), promise: promise)
        case .end:
            context.write(data, promise: promise)
            let done = waiting.removeFirst()
            if done.close {
                deaf = true
                closeOnFlush = true
            } else if waiting.isEmpty, let refused {
                answer(refused, context: context)
            }
        default: context.write(data, promise: promise)
        }
    }

    func flush(context: ChannelHandlerContext) {
        context.flush()
        if closeOnFlush { shut(context) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        lingerTimer?.cancel()
        lingerTimer = nil
    }

    private func refuse(_ code: FramingRefusal, context: ChannelHandlerContext) {
        deaf = true
        bodyOpen = false
        refused = code
        if waiting.isEmpty { answer(code, context: context) }
    }

    private func answer(_ code: FramingRefusal, context: ChannelHandlerContext) {
        refused = nil
        let answer = refusal(code)
        context.write(wrapOutboundOut(.head(answer.head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(answer.body))), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        shut(context)
    }

    /// Ends the sending side, and the rest when the client has done the same or `linger` is over.
    ///
    /// Closing at once with input unread would reset the connection, and the answer could be lost with it (RFC 9112
    /// section 9.6).
    private func shut(_ context: ChannelHandlerContext) {
        guard !closing else { return }
        closing = true
        deaf = true
        context.close(mode: .output, promise: nil)
        lingerTimer = context.eventLoop.assumeIsolated().scheduleTask(in: linger) { context.close(promise: nil) }
        context.read()
    }
}

/// Why a request is refused for its framing.
enum FramingRefusal: Sendable, Equatable {
    case malformed
    case tooLarge
}

/// A whole answer to a request that is refused for its framing.
struct FramingAnswer {
    let head: HTTPResponseHead
    let body: ByteBuffer
}

@available(*, unavailable)
extension FramingHandler: Sendable {}
