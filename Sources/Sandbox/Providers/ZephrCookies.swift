import Hummingbird

/// The cookies of a new Zephr session, in `Set-Cookie` fields and in the body.
enum ZephrCookies {
    static func answer(session: String, tracking: String, message: String, call: Call, status: Int = 200) -> Response {
        let tail = "; Expires=Tue, 02 Nov 2027 10:00:00 GMT; Path=/;"
        let cookie = "blaize_session=" + session + tail
        var headers = [("Set-Cookie", cookie), ("Set-Cookie", "blaize_tracking_id=" + tracking + tail)]
        var body: JSON = ["cookie": .string(cookie), "message": .string(message), "tracking_id": .string(tracking)]
        if call.faults.has("register-no-session") || call.faults.has("register-body-cookie-only") {
            headers.removeFirst()
        }
        if call.faults.has("register-no-session") || call.faults.has("register-header-cookie-only") {
            body["cookie"] = nil
        }
        return .text(body.serialized, status: status, type: "application/json", headers: headers)
    }
}
