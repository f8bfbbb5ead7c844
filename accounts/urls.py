from django.urls import path

from accounts import views

app_name = "accounts"
urlpatterns = [
    path("login/", views.log_in, name="login"),
    path("logout/", views.log_out, name="logout"),
    path("password/", views.password, name="password"),
    path("tokens/", views.tokens, name="tokens"),
    path("tokens/<int:pk>/revoke/", views.revoke_token, name="revoke_token"),
    path("people/", views.people, name="people"),
    path("people/<int:pk>/role/", views.change_role, name="change_role"),
    path("people/<int:pk>/activate/", views.activate, name="activate"),
    path("people/<int:pk>/deactivate/", views.deactivate, name="deactivate"),
    path("people/<int:pk>/reset-password/", views.reset_password, name="reset_password"),
]
