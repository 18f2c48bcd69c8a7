// Only for OkHttp 3. Later versions of OkHttp already have these members.
package coatcheck

import okhttp3.HttpUrl
import okhttp3.Response
import okhttp3.ResponseBody

fun String.toHttpUrl(): HttpUrl = HttpUrl.get(this)

internal val Response.code: Int get() = code()
internal val Response.body: ResponseBody? get() = body()
