/// One request of the phone, its browser, or another party in the story.
struct PlaygroundRequest: Sendable {
    var method = "GET"
    /// The party that receives the request.
    var to: ConversationMessage.Party
    /// The path with its query.
    var target: String
    var headers: [(String, String)] = []
    var body: [UInt8] = []
    var jar: CookieJar?
    /// The name of the sender; empty if the app sends the request.
    var who = ""
    /// The value that the curl line extracts from the answer.
    var capture = CurlLine.Capture.nothing
    /// A curl line that replaces the usual one, if curl has to do more than this request.
    var curl: CurlLine?
    /// Whether the request has a proof of the phone's key.
    var isProved = false
    /// Whether the request is recorded.
    var isRecorded = true

    /// A request with a JSON body.
    static func json(_ method: String, _ target: String, _ body: JSON, jar: CookieJar?) -> PlaygroundRequest {
        PlaygroundRequest(
            method: method, to: .broker, target: target, headers: [("Content-Type", "application/json")],
            body: Array(body.serialized.utf8), jar: jar)
    }
}
