/// One request of the phone, its browser, or of somebody else in the story.
struct PlaygroundRequest: Sendable {
    var method = "GET"
    /// The receiver.
    var to: ConversationMessage.Party
    /// The path with its query.
    var target: String
    var headers: [(String, String)] = []
    var body: [UInt8] = []
    var jar: CookieJar?
    /// The sender, where that is not the app.
    var who = ""
    /// The value that its curl line keeps of the answer.
    var capture = CurlLine.Capture.nothing
    /// Another line than that of this very request, where curl is to do more at once.
    var curl: CurlLine?
    /// Whether it has a proof of the phone's key.
    var isProved = false
    /// Whether it is written down.
    var isRecorded = true

    /// A request with a JSON body.
    static func json(_ method: String, _ target: String, _ body: JSON, jar: CookieJar?) -> PlaygroundRequest {
        PlaygroundRequest(
            method: method, to: .broker, target: target, headers: [("Content-Type", "application/json")],
            body: Array(body.serialized.utf8), jar: jar)
    }
}
