// For OkHttp 3 alone: later ones have these two as members.
package coatcheck

import okhttp3.Response
import okhttp3.ResponseBody

internal val Response.code: Int get() = code()
internal val Response.body: ResponseBody? get() = body()
