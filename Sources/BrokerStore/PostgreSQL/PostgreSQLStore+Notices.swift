package import Broker

extension PostgreSQLStore: EndingNotices {
    package func listen(_ handler: @escaping @Sendable (EndingNotice) -> Void) {
        if let endings { endings.listen(handler) } else { handler(.deaf) }
    }
}
