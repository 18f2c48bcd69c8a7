import Synchronization

/// The last messages between app, broker and provider, with shortened secrets.
final class Conversation: Sendable {
    private struct Kept {
        var messages: [ConversationMessage] = []
        var next = 1
        /// The number of times that the conversation was restarted.
        var beginning = 0
    }

    private let kept = Mutex(Kept())
    private let limit = 400

    /// Appends a message.
    func append(_ message: ConversationMessage) {
        kept.withLock { kept in
            var message = message
            message.number = kept.next
            kept.next += 1
            kept.messages.append(message)
            if kept.messages.count > limit { kept.messages.removeFirst(kept.messages.count - limit) }
        }
    }

    /// Appends a remark.
    func note(_ text: String, tone: ConversationMessage.Tone = .plain) {
        append(.init(kind: .note, from: .app, to: .provider, title: text, tone: tone))
    }

    /// Returns the messages whose numbers are above `number`, the last message's number, and the number of restarts.
    func since(_ number: Int) -> (messages: [ConversationMessage], last: Int, beginning: Int) {
        kept.withLock { kept in
            (kept.messages.filter { $0.number > number }, kept.next - 1, kept.beginning)
        }
    }

    /// Deletes all messages.
    func clear() {
        kept.withLock { kept in
            kept.messages.removeAll()
            kept.beginning += 1
        }
    }
}
